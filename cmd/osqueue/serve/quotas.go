package serve

import (
	"fmt"
	"strconv"

	"osqueue/cmd/osqueue/view"
)

// The quotas that --max-jobs=auto and --max-bytes=auto stand for. A job that waits takes about
// 500 bytes without its payload, so with both the state takes at most about half of the memory.
const (
	quotaShare   = 4         // a part of the memory for jobs, batches and schedules
	bytesPerJob  = 1 << 10   // of that part
	leastMemory  = 256 << 20 // less counts as this
	unknownBytes = 4 << 30   // the memory of a machine that does not tell
)

// quotaOptions are the flags of the quotas of the whole queue.
type quotaOptions struct {
	jobs  autoCount
	bytes autoSize
}

// pastShare is the part of the memory for earlier states (--past-memory=auto).
const pastShare = 8

// of returns the size, or a part of memory bytes for auto; 0 is unknown memory.
func (s autoSize) of(memory int64, share int64) int64 {
	if s != auto {
		return int64(s)
	}
	if memory == 0 {
		memory = unknownBytes
	}
	return max(memory, leastMemory) / share
}

// of returns the quotas on a machine with memory bytes; 0 is unknown.
func (o *quotaOptions) of(memory int64) (jobs, bytes int64) {
	if memory == 0 {
		memory = unknownBytes
	}
	part := max(memory, leastMemory) / quotaShare
	jobs, bytes = int64(o.jobs), int64(o.bytes)
	if jobs == auto {
		jobs = part / bytesPerJob
	}
	if bytes == auto {
		bytes = part
	}
	return jobs, bytes
}

// auto is the value of a flag whose value follows from the machine.
const auto = -1

// autoCount is a flag whose value is a number, or auto.
type autoCount int64

// String implements pflag.Value.
func (c *autoCount) String() string {
	if *c == auto {
		return "auto"
	}
	return strconv.FormatInt(int64(*c), 10)
}

// Set implements pflag.Value.
func (c *autoCount) Set(text string) error {
	if text == "auto" {
		*c = auto
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q: write auto, 0 for no limit, or a positive number", text)
	}
	*c = autoCount(n)
	return nil
}

// Type implements pflag.Value.
func (*autoCount) Type() string { return "count" }

// autoSize is a flag whose value is a number of bytes, or auto.
type autoSize int64

// String implements pflag.Value.
func (s *autoSize) String() string {
	if *s == auto {
		return "auto"
	}
	return (*view.Size)(s).String()
}

// Set implements pflag.Value.
func (s *autoSize) Set(text string) error {
	if text == "auto" {
		*s = auto
		return nil
	}
	return (*view.Size)(s).Set(text)
}

// Type implements pflag.Value.
func (*autoSize) Type() string { return "size" }
