package typestats

import "slices"

// secondBounds range from a worker that waits for the job to a day in the queue.
var secondBounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400}

var attemptBounds = []float64{0, 1, 2, 3, 5, 10, 20}

// Histogram counts values by size.
type Histogram struct {
	Bounds []float64 // the largest value of each bucket; there is one more bucket after the last. Do not change it
	Counts []uint64  // of the values of each bucket alone
	Sum    float64
}

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

func (h *Histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.Bounds, v)
	h.Counts[i]++
	h.Sum += v
}

// Count returns the number of values.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Cumulative returns the number of values up to each bound.
func (h *Histogram) Cumulative() map[float64]uint64 {
	out, n := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		out[bound] = n
	}
	return out
}

func (h *Histogram) clone() Histogram {
	return Histogram{Bounds: h.Bounds, Counts: slices.Clone(h.Counts), Sum: h.Sum}
}
