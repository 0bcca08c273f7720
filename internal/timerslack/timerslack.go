// Package timerslack lets the kernel fire the timers of a process a little late, together.
//
// # Problem
//
// While anything runs, the monitor thread of Go's scheduler wakes every 20 µs. On a small
// machine that is a sixth of the CPU time of a node. The kernel delays a wake-up by up to the
// timer slack of the thread, 50 µs by default, so a slack of 1 ms makes these wake-ups rare.
// Timers of the program then fire up to 1 ms late; an event on a socket or a file is not
// delayed.
//
// # Approach
//
// A thread passes its slack on to the threads that it creates, and the monitor thread is
// created before main begins. An exec keeps the slack, so Raise sets it and executes the
// program again. It leaves a slack alone that is not the kernel's default: it was set on purpose
// (systemd: TimerSlackNSec=).
//
// See prctl(2), PR_SET_TIMERSLACK.
package timerslack
