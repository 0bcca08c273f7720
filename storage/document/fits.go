package document

import "osqueue/fsm"

// Fits reports whether a state takes at most bytesMax bytes inline, without header and
// archive. The cost is proportional to bytesMax at most.
func Fits(v *fsm.View, bytesMax int) bool {
	a := appender{limit: bytesMax}
	return a.inline(&Content{State: v}, Header{}) && !a.full()
}
