package link

import (
	"fmt"
	"sync/atomic"
)

// Count counts the bytes and connections of links by outcome: the proof that a fault has
// hit.
type Count struct {
	Passed   int64 // bytes that arrived
	Withheld int64 // bytes that a cut held up, whether or not they arrived later
	Delayed  int64 // bytes that a delay or a rate held up
	Held     int64 // connections that could not be made during a cut
	Reset    int64 // connections that a reset ended
	Refused  int64 // connections that a reset refused
	Absent   int64 // connections to a target that was not there: no link's fault
}

// Minus returns the difference to older.
func (c Count) Minus(older Count) Count {
	return Count{
		Passed:   c.Passed - older.Passed,
		Withheld: c.Withheld - older.Withheld,
		Delayed:  c.Delayed - older.Delayed,
		Held:     c.Held - older.Held,
		Reset:    c.Reset - older.Reset,
		Refused:  c.Refused - older.Refused,
		Absent:   c.Absent - older.Absent,
	}
}

func (c Count) plus(o Count) Count { return c.Minus(Count{}.Minus(o)) }

// Harmed says whether a condition has held up or broken anything.
func (c Count) Harmed() bool {
	c.Passed, c.Absent = 0, 0
	return c != Count{}
}

// String is for reports.
func (c Count) String() string {
	return fmt.Sprintf("bytes: %d passed, %d withheld, %d delayed; connections: %d held, %d reset, %d refused, %d in vain",
		c.Passed, c.Withheld, c.Delayed, c.Held, c.Reset, c.Refused, c.Absent)
}

// counters count for one lane.
type counters struct {
	passed, withheld, delayed, held, reset, refused, absent atomic.Int64
}

func (c *counters) read() Count {
	return Count{
		Passed:   c.passed.Load(),
		Withheld: c.withheld.Load(),
		Delayed:  c.delayed.Load(),
		Held:     c.held.Load(),
		Reset:    c.reset.Load(),
		Refused:  c.refused.Load(),
		Absent:   c.absent.Load(),
	}
}
