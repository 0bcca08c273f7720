package main

import (
	"fmt"
	"time"
)

// check refuses negative settings of the flags and the file that mean something
// else, or nothing, further on; worker.New refuses the others.
func (f *workerFlags) check() error {
	for name, d := range map[string]time.Duration{"stop-timeout": f.stopTimeout, "http-timeout": f.httpTimeout} {
		if d < 0 {
			return fmt.Errorf("%s %v: must not be negative", name, d)
		}
	}
	if err := f.limits.check(); err != nil {
		return fmt.Errorf("limit-%w", err)
	}
	for _, j := range f.jobs {
		if j.Timeout < 0 {
			return fmt.Errorf("%s: timeout %v: must not be negative", j, j.Timeout)
		}
		if err := j.Limits.check(); err != nil {
			return fmt.Errorf("%s: limit-%w", j, err)
		}
	}
	return nil
}

// check wants the numbers that their notation lets be negative: sizes cannot be.
func (l limitFlags) check() error {
	for name, d := range map[string]time.Duration{"time": l.Time, "cpu": l.CPU} {
		if d < 0 {
			return fmt.Errorf("%s %v: must not be negative", name, d)
		}
	}
	for name, n := range map[string]int64{"files": l.Files, "processes": l.Processes} {
		if n < 0 {
			return fmt.Errorf("%s %d: must not be negative", name, n)
		}
	}
	return nil
}
