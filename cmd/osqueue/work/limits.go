package work

import (
	"fmt"
	"time"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sandbox"
)

// limitFlags are sandbox.Limits in the notation of flags and files.
type limitFlags struct {
	Time      view.Span `yaml:"time"`
	CPU       view.Span `yaml:"cpu"`
	Memory    view.Size `yaml:"memory"`
	Files     int64     `yaml:"files"`
	Processes int64     `yaml:"processes"`
	FileSize  view.Size `yaml:"file-size"`
	Disk      view.Size `yaml:"disk"`
	Output    view.Size `yaml:"output"`
	Log       view.Size `yaml:"log"`
}

func (l limitFlags) limits() sandbox.Limits {
	return sandbox.Limits{
		Timeout: time.Duration(l.Time), CPU: time.Duration(l.CPU), Memory: int64(l.Memory), Files: l.Files, Processes: l.Processes,
		FileSize: int64(l.FileSize), Disk: int64(l.Disk), Output: int(l.Output), Log: int(l.Log),
	}
}

// above returns l with the limits that are not set taken from others.
func (l limitFlags) above(others limitFlags) limitFlags {
	return limitFlags{
		Time: orElse(l.Time, others.Time), CPU: orElse(l.CPU, others.CPU), Memory: orElse(l.Memory, others.Memory),
		Files: orElse(l.Files, others.Files), Processes: orElse(l.Processes, others.Processes),
		FileSize: orElse(l.FileSize, others.FileSize), Disk: orElse(l.Disk, others.Disk),
		Output: orElse(l.Output, others.Output), Log: orElse(l.Log, others.Log),
	}
}

// check refuses negative numbers where the notation allows them: sizes and times cannot
// be negative.
func (l limitFlags) check() error {
	for name, n := range map[string]int64{"files": l.Files, "processes": l.Processes} {
		if n < 0 {
			return fmt.Errorf("%s %d: must not be negative", name, n)
		}
	}
	return nil
}

func orElse[T comparable](v, otherwise T) T {
	var none T
	if v == none {
		return otherwise
	}
	return v
}
