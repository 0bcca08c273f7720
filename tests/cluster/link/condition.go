package link

import (
	"fmt"
	"strings"
	"time"
)

// Condition is how bad a link is. The zero value is a good one.
type Condition struct {
	// Cut withholds all bytes until it is healed. Cutting one direction alone
	// makes connections half open.
	Cut bool
	// Delay delays every byte, and Jitter by up to that much more. Neither changes the order or
	// the throughput.
	Delay, Jitter time.Duration
	// Rate is how many bytes a second pass, on all connections of a service
	// together; 0 is no limit.
	Rate int
	// Reset ends all connections that have this direction with RST, also those
	// that are dialed later.
	Reset bool
}

// and returns the condition of both together.
func (c Condition) and(o Condition) Condition {
	c.Cut = c.Cut || o.Cut
	c.Reset = c.Reset || o.Reset
	c.Delay += o.Delay
	c.Jitter += o.Jitter
	if c.Rate == 0 || o.Rate > 0 && o.Rate < c.Rate {
		c.Rate = o.Rate
	}
	return c
}

// String names the faults of the condition.
func (c Condition) String() string {
	var words []string
	if c.Cut {
		words = append(words, "cut")
	}
	if c.Delay > 0 || c.Jitter > 0 {
		words = append(words, fmt.Sprintf("delay %v+%v", c.Delay, c.Jitter))
	}
	if c.Rate > 0 {
		words = append(words, fmt.Sprintf("%d B/s", c.Rate))
	}
	if c.Reset {
		words = append(words, "reset")
	}
	if len(words) == 0 {
		return "good"
	}
	return strings.Join(words, ", ")
}
