//go:build !linux

package host

import "time"

func total() int64 { return 0 }

func groupLimit() int64 { return 0 }

// NetworkStack returns "": the identity of the network stack is unknown.
func NetworkStack() string { return "" }

// RaiseTimerSlack does nothing: only Linux has a timer slack that a process can set.
func RaiseTimerSlack(time.Duration) error { return nil }
