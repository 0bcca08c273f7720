package cost

import "time"

// The window is an hour, in slots of a minute.
const (
	slotLength = time.Minute
	slotCount  = 60
)

// LeastSpan is the least time that a projection divides by. A process that has not
// run for as long projects too little.
const LeastSpan = 10 * time.Minute

// window keeps the counts of the last hour: of as many whole slots as an hour
// has, and of the one that is not over.
type window struct {
	slots [slotCount + 1]struct {
		number int64 // since the start; the counts of an older one are void
		counts Counts
	}
}

// slot is the one of a time since the start.
func (w *window) slot(since time.Duration) *Counts {
	n := int64(max(since, 0) / slotLength)
	s := &w.slots[n%int64(len(w.slots))]
	if s.number != n {
		s.number, s.counts = n, Counts{}
	}
	return &s.counts
}

// sum is what was counted in the window that ends so long after the start, and
// how long that window is.
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
