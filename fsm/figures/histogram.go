// Package figures counts events by minute and values by size, in a form that takes few bytes in
// the state of the machine: a History of a day, and a Histogram.
package figures

import (
	"encoding/binary"
	"errors"
)

// The upper bounds of the buckets. The state has the counts by their number, so the bounds
// must not change.
var (
	// WaitBounds range, in ms, from a worker that waits for the job to a day in the queue.
	WaitBounds = []int64{
		5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 14_400_000, 86_400_000,
	}
	// AttemptBounds are those of numbers of attempts.
	AttemptBounds = []int64{0, 1, 2, 3, 5, 10, 20}
)

// bucketsMax is the number of buckets of the longest list of bounds, with the one above the
// last bound.
const bucketsMax = 19

// Histogram counts values by size.
type Histogram struct {
	Counts [bucketsMax]uint64 // of the values of each bucket alone
	Sum    uint64             // of all values
}

// Observe counts a value. bounds are those of the histogram, all of whose values have the same.
func (h *Histogram) Observe(bounds []int64, v int64) {
	v = max(v, 0)
	i := 0
	for i < len(bounds) && v > bounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += uint64(v)
}

// Count returns the number of values.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Pack returns the histogram as text for a document or a snapshot, "" for an empty one: its
// numbers as unsigned varints, without the zeros at the end.
func (h *Histogram) Pack() string {
	numbers := append([]uint64{h.Sum}, h.Counts[:]...)
	for len(numbers) > 0 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	var out []byte
	for _, n := range numbers {
		out = binary.AppendUvarint(out, n)
	}
	return string(out)
}

var (
	errHistogram = errors.New("invalid encoding of a histogram")
	errHistory   = errors.New("invalid encoding of the figures of the minutes")
)

// UnpackHistogram reads the text of Pack.
func UnpackHistogram(text string) (h Histogram, err error) {
	rest := []byte(text)
	for i := 0; len(rest) > 0; i++ {
		n, size := binary.Uvarint(rest)
		switch {
		case size <= 0 || i > bucketsMax:
			return Histogram{}, errHistogram
		case i == 0:
			h.Sum = n
		default:
			h.Counts[i-1] = n
		}
		rest = rest[size:]
	}
	if h.Pack() != text {
		return Histogram{}, errHistogram
	}
	return h, nil
}
