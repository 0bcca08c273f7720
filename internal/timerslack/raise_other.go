//go:build !linux

package timerslack

import "time"

// Raise does nothing: only Linux has a timer slack that a process can set.
func Raise(time.Duration) error { return nil }
