//go:build !faultclock

package main

import (
	"time"

	"github.com/hashicorp/go-hclog"
)

// nodeClock is the wall clock of a node: the computer's. Tests of clocks that
// jump build the program with the tag faultclock.
func nodeClock(hclog.Logger, func(string) string) func() time.Time { return nil }

// diskFault returns what is called before each write of the raft log: nothing.
func diskFault(func(string) string) func() { return nil }
