//go:build !faultclock

package serve

import (
	"time"

	"github.com/hashicorp/go-hclog"
)

// nodeClock returns the wall clock of a node; nil means the computer's clock. Tests of
// clocks that jump build the program with the tag faultclock.
func nodeClock(hclog.Logger, func(string) string) func() time.Time { return nil }

// diskFault returns the function that runs before each write of the raft log: nil.
func diskFault(func(string) string) func() { return nil }
