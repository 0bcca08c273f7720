package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"osqueue/tests/measure"
)

// diskShare is the part of a measurement's length in which the disk is measured.
const diskShare = 5

// disk measures the lower bound of any log on this disk: an append with fsync. It explains
// differences between runs on different machines, or at different times.
func (b *bench) disk() error {
	dir, err := os.MkdirTemp("", "osqueue-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	took, err := appendFor(f, b.duration/diskShare)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	b.report.add(figure{Section: "disk", Name: "append 4 KiB and fsync, p50", Value: measure.Milliseconds(took.At(50)), Unit: "ms"})
	b.report.add(figure{Section: "disk", Name: "append 4 KiB and fsync, p99", Value: measure.Milliseconds(took.At(99)), Unit: "ms"})
	return nil
}

func appendFor(f *os.File, d time.Duration) (took measure.Samples, err error) {
	block := make([]byte, 4096)
	for begin := time.Now(); time.Since(begin) < d; {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}
