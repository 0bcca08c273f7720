package cost

import "time"

// The window is an hour, in slots of a minute.
const (
	slotLength = time.Minute
	slotCount  = 60
)

// LeastSpan is the least time that a projection divides by. The projection of a process
// that has run for less time is too low.
const LeastSpan = 10 * time.Minute

// window has the counts of the last hour: slotCount whole slots, and the present one.
type window struct {
	slots [slotCount + 1]struct {
		number int64 // since the start; the counts of an older slot are invalid
		counts Counts
	}
}

// slot returns the counts of the slot at a time since the start.
func (w *window) slot(since time.Duration) *Counts {
	n := int64(max(since, 0) / slotLength)
	s := &w.slots[n%int64(len(w.slots))]
	if s.number != n {
		s.number, s.counts = n, Counts{}
	}
	return &s.counts
}

// sum returns the counts of the window that ends at a time since the start, and the
// length of that window.
func (w *window) sum(since time.Duration) (Counts, time.Duration) {
	since = max(since, 0)
	last := int64(since / slotLength)
	first := max(last-slotCount, 0)
	var total Counts
	for i := range w.slots {
		if s := &w.slots[i]; first <= s.number && s.number <= last {
			total.plus(&s.counts)
		}
	}
	return total, since - time.Duration(first)*slotLength
}
