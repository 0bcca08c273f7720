package queuefile

import "osqueue/fsm"

// Fits reports whether a state takes at most so many bytes inline, header and
// archive not counted. It costs work in proportion to that number at most.
func Fits(v *fsm.View, bytesMax int) bool {
	a := appender{limit: bytesMax}
	return a.inline(&Content{State: v}, Header{}) && !a.full()
}
