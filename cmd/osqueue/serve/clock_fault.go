//go:build faultclock

package serve

import (
	"encoding/json"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/cmd/osqueue/view"
)

// A program built with the tag faultclock has a wall clock that a test changes at run
// time through a file. The monotonic clock is not affected.

// faultClockEnv is the environment variable that names the file. The file must exist
// from the start, and is replaced as a whole. Without the variable the clock is right.
const faultClockEnv = "OSQUEUE_FAULT_CLOCK"

// faultClockLook is the interval at which the file is read.
const faultClockLook = 20 * time.Millisecond

// clockFault is the error of a clock.
type clockFault struct {
	Serial int64         `json:"serial"` // another one with each change
	Offset time.Duration `json:"offset"` // ns
	Drift  float64       `json:"drift"`  // seconds a second, since Since
	Since  int64         `json:"since"`  // ns since 1970, by the right clock
}

// at returns the time that the wrong clock shows at t.
func (f *clockFault) at(t time.Time) time.Time {
	drifted := time.Duration(f.Drift * float64(t.UnixNano()-f.Since))
	return t.Add(f.Offset + drifted)
}

// nodeClock returns the wall clock of a node, changed as the file says. It logs every
// change that has taken effect. Its goroutine, which reads the file, ends with the
// process.
func nodeClock(log hclog.Logger, getenv func(string) string) func() time.Time {
	path := getenv(faultClockEnv)
	if path == "" {
		return nil
	}
	var fault atomic.Pointer[clockFault]
	look := func() {
		f, err := readClockFault(path)
		if err != nil {
			log.Error("the fault clock is not set", "error", err)
			os.Exit(view.ExitFailure)
		}
		if old := fault.Swap(f); old == nil || old.Serial != f.Serial {
			log.Warn("fault clock", "serial", f.Serial, "offset", f.Offset, "drift", f.Drift)
		}
	}
	look()
	go func() {
		for range time.Tick(faultClockLook) {
			look()
		}
	}()
	return func() time.Time { return fault.Load().at(time.Now()) }
}

func readClockFault(path string) (*clockFault, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := new(clockFault)
	return f, json.Unmarshal(data, f)
}

// faultDiskEnv is the environment variable that names a file. While the file exists,
// each write of the raft log hangs, as on a disk that does not answer.
const faultDiskEnv = "OSQUEUE_FAULT_DISK"

// faultDiskLook is the interval at which a hanging write checks for the file.
const faultDiskLook = 20 * time.Millisecond

// diskFault returns the function that runs before each write of the raft log, or nil.
func diskFault(getenv func(string) string) func() {
	path := getenv(faultDiskEnv)
	if path == "" {
		return nil
	}
	return func() {
		for {
			if _, err := os.Stat(path); err != nil {
				return
			}
			time.Sleep(faultDiskLook)
		}
	}
}
