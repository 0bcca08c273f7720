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
	// Two sources, since a time.Time whose wall clock was moved has had its
	// monotonic clock moved with it: elapsed time is never taken from wall.
	wall, mono func() time.Time

	mu      sync.Mutex
	last    time.Time // of mono
	reading int64     // ns since 1970
}

// newLeaderClock makes a clock that is slewed towards wall; machineMs is the
// machine's clock.
func newLeaderClock(wall func() time.Time, machineMs int64) *leaderClock {
	return startLeaderClock(wall, time.Now, machineMs)
}

func startLeaderClock(wall, mono func() time.Time, machineMs int64) *leaderClock {
	return &leaderClock{
		wall:    wall,
		mono:    mono,
		last:    mono(),
		reading: max(machineMs*int64(time.Millisecond), wall().UnixNano()),
	}
}

// now returns milliseconds since 1970; it never goes back.
func (c *leaderClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.mono()
	c.reading = slew(c.reading, t.Sub(c.last), c.wall().UnixNano())
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
