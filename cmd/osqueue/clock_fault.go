//go:build faultclock

package main

import (
	"encoding/json"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A program built with the tag faultclock has a wall clock that a test moves
// while it runs: a file says how wrong it is. The monotonic clock is left alone.

// faultClockEnv names the file. It must be there from the start, and is replaced
// as a whole; without the variable the clock is right.
const faultClockEnv = "OSQUEUE_FAULT_CLOCK"

// faultClockLook is how often the file is read.
const faultClockLook = 20 * time.Millisecond

// clockFault is how wrong a clock is.
type clockFault struct {
	Serial int64         `json:"serial"` // another one with each change
	Offset time.Duration `json:"offset"` // ns
	Drift  float64       `json:"drift"`  // seconds a second, since Since
	Since  int64         `json:"since"`  // ns since 1970, by the right clock
}

// at is what the wrong clock shows at a time.
func (f *clockFault) at(t time.Time) time.Time {
	drifted := time.Duration(f.Drift * float64(t.UnixNano()-f.Since))
	return t.Add(f.Offset + drifted)
}

// nodeClock is the wall clock of a node, wrong by what the file says. The log
// tells of every change that has taken effect. The goroutine that looks at the file
// ends with the process.
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
			os.Exit(exitFailure)
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
