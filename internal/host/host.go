// Package host knows the machine of this process: how much memory the process may use, for defaults
// that follow from it, the identity of its network stack, and the timers of its kernel.
//
// # Timer slack
//
// While anything runs, the monitor thread of Go's scheduler wakes every 20 µs. On a small
// machine that is a sixth of the CPU time of a node. The kernel delays a wake-up by up to the
// timer slack of the thread, 50 µs by default, so a slack of 1 ms makes these wake-ups rare.
// Timers of the program then fire up to 1 ms late; an event on a socket or a file is not
// delayed.
//
// A thread passes its slack on to the threads that it creates, and the monitor thread is
// created before main begins. An exec keeps the slack, so RaiseTimerSlack sets it and executes the
// program again. It leaves a slack alone that is not the kernel's default: it was set on purpose
// (systemd: TimerSlackNSec=). See prctl(2), PR_SET_TIMERSLACK.
package host

import "sync"

// Memory returns the bytes of memory that this process may use: those of the machine, or of
// its control group if that has fewer. It returns 0 if the size is unknown.
var Memory = sync.OnceValue(func() int64 {
	size := total()
	if limit := groupLimit(); limit > 0 && (size == 0 || limit < size) {
		return limit
	}
	return size
})
