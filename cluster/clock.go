package cluster

import (
	"sync"
	"time"
)

// leaderClock is the clock of an active leader. It starts at the later of the
// machine's clock and the wall clock, runs with the monotonic clock, and is
// slewed towards the wall clock by at most a tenth: a wall clock that jumps
// neither expires a lease nor freezes time. Safe for concurrent use.
type leaderClock struct {
	source func() time.Time // time.Now, whose readings carry both clocks

	mu      sync.Mutex
	last    time.Time
	reading int64 // ns since 1970
}

func newLeaderClock(source func() time.Time, machineMs int64) *leaderClock {
	now := source()
	return &leaderClock{
		source:  source,
		last:    now,
		reading: max(machineMs*int64(time.Millisecond), now.UnixNano()),
	}
}

// now returns milliseconds since 1970; it never goes back.
func (c *leaderClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.source()
	c.reading = slew(c.reading, t.Sub(c.last), t.UnixNano())
	c.last = t
	return c.reading / int64(time.Millisecond)
}

// slew advances reading by elapsed, corrected towards wall by at most a tenth
// of elapsed. All are in nanoseconds.
func slew(reading int64, elapsed time.Duration, wall int64) int64 {
	if elapsed <= 0 {
		return reading
	}
	ahead := reading + int64(elapsed)
	limit := int64(elapsed) / 10
	return ahead + min(max(wall-ahead, -limit), limit)
}
