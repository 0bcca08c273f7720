package link

import (
	"sync"
	"sync/atomic"
	"time"
)

// lane is one direction between two parties on one service, with its present condition.
type lane struct {
	link   Link
	effect atomic.Pointer[effect]
	counters

	mu   sync.Mutex
	next time.Time // when the rate allows the next piece
}

// effect is the sum of the faults on a lane.
type effect struct {
	Condition
	changed chan struct{} // closed when another takes its place
}

func newLane(l Link, c Condition) *lane {
	n := &lane{link: l}
	n.effect.Store(&effect{c, make(chan struct{})})
	return n
}

// set puts another condition into force.
func (l *lane) set(c Condition) {
	if l.effect.Load().Condition == c {
		return
	}
	old := l.effect.Swap(&effect{c, make(chan struct{})})
	close(old.changed)
}

// pieceMax bounds the bytes of one write.
const pieceMax = 32 << 10

// piece returns how many of n bytes may be written at once: with a rate, the bytes of a
// twentieth of a second.
func (l *lane) piece(n int) int {
	if rate := l.effect.Load().Rate; rate > 0 {
		n = min(n, max(rate/20, 1))
	}
	return min(n, pieceMax)
}

// windowLeast bounds the window of a lane with a low rate.
const windowLeast = 64 << 10

// window returns the number of bytes in flight at which the sender has to wait: with a rate,
// the bytes of one second, so that the sender notices how slow the link is.
func (l *lane) window() int {
	if rate := l.effect.Load().Rate; rate > 0 {
		return min(max(rate, windowLeast), queueBytes)
	}
	return queueBytes
}

// await waits until the first n bytes of an item may be written. It returns false
// if done was closed before.
func (l *lane) await(it *item, n int, done <-chan struct{}) bool {
	var slot time.Time // that the rate has given to these bytes
	late := false
	for {
		e := l.effect.Load()
		if e.Cut {
			l.withhold(it)
			select {
			case <-e.changed:
				continue
			case <-done:
				return false
			}
		}
		late = late || e.Delay > 0 || e.Jitter > 0
		due := it.at.Add(e.Delay + time.Duration(it.luck*float64(e.Jitter)))
		if e.Rate > 0 && n > 0 {
			if slot.IsZero() {
				slot = l.reserve(n, e.Rate)
			}
			due = later(due, slot)
		}
		wait := time.Until(due)
		if wait <= 0 {
			if late {
				l.delayed.Add(int64(n))
			}
			return true
		}
		late = true
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-e.changed:
		case <-done:
			t.Stop()
			return false
		}
		t.Stop()
	}
}

// withhold counts the bytes of an item as withheld, once.
func (l *lane) withhold(it *item) {
	if !it.withheld {
		it.withheld = true
		l.withheld.Add(int64(len(it.data)))
	}
}

// reserve returns when n bytes may pass.
func (l *lane) reserve(n, rate int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := later(l.next, time.Now())
	l.next = slot.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	return slot
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
