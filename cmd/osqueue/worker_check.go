package main

import "fmt"

// check refuses settings that later code would misread or ignore; worker.New refuses the
// others.
func (f *workerFlags) check() error {
	if f.slotsGiven && f.concurrency < 1 {
		return fmt.Errorf("concurrency %d: must be at least 1", f.concurrency)
	}
	if err := f.limits.check(); err != nil {
		return fmt.Errorf("limit-%w", err)
	}
	for _, j := range f.jobs {
		if err := j.Limits.check(); err != nil {
			return fmt.Errorf("%s: limit-%w", j, err)
		}
	}
	return nil
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
