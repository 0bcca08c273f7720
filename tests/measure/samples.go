package measure

import (
	"math"
	"slices"
	"time"
)

// Samples are durations of the same operation.
type Samples []time.Duration

// At returns the p-th percentile, by nearest rank. It sorts the samples.
func (s Samples) At(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[max(0, int(math.Ceil(p/100*float64(len(s))))-1)]
}

// Milliseconds converts a duration for a report.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
