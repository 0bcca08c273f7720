package work

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sandbox"
)

// workerFile is the content of the file of --config; docs/examples/worker.yaml explains
// it.
type workerFile struct {
	Name        string     `yaml:"name"`
	Concurrency *int       `yaml:"concurrency"`
	Prefetch    int        `yaml:"prefetch"`
	Lease       view.Span  `yaml:"lease"`
	PollWait    *view.Span `yaml:"poll-wait"`
	StopTimeout *view.Span `yaml:"stop-timeout"`

	Sandbox         string     `yaml:"sandbox"`
	SandboxUIDs     string     `yaml:"sandbox-uids"`
	SandboxDir      string     `yaml:"sandbox-dir"`
	SandboxEnv      []string   `yaml:"sandbox-env"`
	SandboxReadOnly []string   `yaml:"sandbox-ro"`
	NoCgroup        bool       `yaml:"no-cgroup"`
	Limits          limitFlags `yaml:"limits"`

	Jobs []workerJob `yaml:"jobs"`
}

// readFile reads the file of --config, if given, and then gathers all jobs. Flags take
// precedence over the file; the lists of both are joined.
func (f *workerFlags) readFile(flags *pflag.FlagSet) error {
	f.slotsGiven = flags.Changed("concurrency")
	if f.configFile == "" {
		return f.gather()
	}
	text, err := os.ReadFile(f.configFile)
	if err != nil {
		return err
	}
	file, err := parseWorkerFile(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.configFile, err)
	}
	file.applyTo(f, flags)
	return f.gather()
}

func parseWorkerFile(text []byte) (workerFile, error) {
	var file workerFile
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return file, unknownKeys(err)
	}
	if err := dec.Decode(new(workerFile)); !errors.Is(err, io.EOF) {
		return file, errors.New("the file has more than one YAML document")
	}
	for i, job := range file.Jobs {
		if err := job.check(); err != nil {
			return file, fmt.Errorf("job %d: %w", i+1, err)
		}
		if job.Sandbox != "" {
			if _, err := sandbox.ParseLevel(job.Sandbox); err != nil {
				return file, fmt.Errorf("job %d: %w", i+1, err)
			}
		}
	}
	return file, nil
}

// yamlUnknown matches the decoder's error for an unknown key.
var yamlUnknown = regexp.MustCompile(`field (.*) not found in type \S+`)

// unknownKeys reports unknown keys without the names of Go types.
func unknownKeys(err error) error {
	var faults *yaml.TypeError
	if !errors.As(err, &faults) {
		return err
	}
	texts := make([]string, len(faults.Errors))
	for i, text := range faults.Errors {
		texts[i] = yamlUnknown.ReplaceAllString(text, "unknown setting $1")
	}
	return errors.New(strings.Join(texts, "; "))
}

func (file workerFile) applyTo(f *workerFlags, flags *pflag.FlagSet) {
	f.name = orElse(f.name, file.Name)
	if file.Concurrency != nil && !flags.Changed("concurrency") {
		f.concurrency, f.slotsGiven = *file.Concurrency, true
	}
	if !flags.Changed("prefetch") { // 0 is a valid value
		f.prefetch = file.Prefetch
	}
	f.lease = orElse(f.lease, time.Duration(file.Lease))
	if file.PollWait != nil && !flags.Changed("poll-wait") {
		f.pollWait = time.Duration(*file.PollWait)
	}
	if file.StopTimeout != nil && !flags.Changed("stop-timeout") {
		f.stopTimeout = time.Duration(*file.StopTimeout)
	}
	f.level = orElse(f.level, file.Sandbox)
	f.uids = orElse(f.uids, file.SandboxUIDs)
	f.sandbox.Dir = orElse(f.sandbox.Dir, file.SandboxDir)
	f.sandbox.Env = append(f.sandbox.Env, file.SandboxEnv...)
	f.sandbox.ReadOnly = append(f.sandbox.ReadOnly, file.SandboxReadOnly...)
	f.sandbox.NoCgroup = f.sandbox.NoCgroup || file.NoCgroup
	f.limits = f.limits.above(file.Limits)
	f.jobs = append(f.jobs, file.Jobs...)
}

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
