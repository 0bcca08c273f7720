package fsm

import "math"

// later adds durations to a time, all in ms. A sum outside of int64 saturates, so that no
// length of a lease, delay or retention, however large, turns the far future into the
// past.
func later(at int64, durations ...int64) int64 {
	for _, d := range durations {
		sum := at + d
		switch {
		case d > 0 && sum < at:
			sum = math.MaxInt64
		case d < 0 && sum > at:
			sum = math.MinInt64
		}
		at = sum
	}
	return at
}

// elapsed returns the time from at to now, at least 0.
func elapsed(at, now int64) int64 {
	if at < 0 && now > math.MaxInt64+at {
		return math.MaxInt64
	}
	return now - at
}
