package cluster

import (
	"context"
	"math"
	"sync"
	"time"
)

// leaderClock is the clock of an active leader. It starts at the later of the
// machine's clock and the wall clock, as far as that can be trusted, runs with the monotonic clock, and is
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

// newLeaderClock makes a clock that is slewed towards wall. It starts at the wall
// clock, but not before machineMs, the machine's clock, nor after latestMs.
func newLeaderClock(wall func() time.Time, machineMs, latestMs int64) *leaderClock {
	return startLeaderClock(wall, time.Now, machineMs, latestMs)
}

func startLeaderClock(wall, mono func() time.Time, machineMs, latestMs int64) *leaderClock {
	start := wall().UnixNano()
	if latestMs < start/int64(time.Millisecond) {
		start = latestMs * int64(time.Millisecond)
	}
	return &leaderClock{
		wall:    wall,
		mono:    mono,
		last:    mono(),
		reading: max(machineMs*int64(time.Millisecond), start),
	}
}

// takeoverSlack is how much more than the time that has passed since the last entry a
// takeover may move the machine's clock by, if no majority of the clocks agrees.
const takeoverSlack = 2 * time.Second

// startClock makes the clock of a leader term. Its first reading is the wall clock's if
// a majority of the clocks agree, or if the machine has no time yet; otherwise limited
// is set, and the machine's time moves on by no more than what has passed.
func (n *Node) startClock(ctx context.Context) (c *leaderClock, limited bool) {
	meta := n.replica.meta()
	const always = math.MaxInt64
	latest := meta.Now + (n.replica.idle() + takeoverSlack).Milliseconds()
	// The readings of other clocks may be from before all of them jumped.
	if max(n.nowMs(), n.wall().UnixMilli()) <= latest {
		return newLeaderClock(n.wall, meta.Now, always), false
	}
	n.measureClocks(ctx)
	switch wall := n.wall().UnixMilli(); {
	case wall <= latest, meta.Now == 0, n.clocksAgree():
		return newLeaderClock(n.wall, meta.Now, always), false
	default:
		n.log.Error("this node's clock is ahead of the cluster's time, and no majority of the clocks agrees with it: "+
			"time goes on from where it was", "ahead_by", time.Duration(wall-meta.Now)*time.Millisecond)
		return newLeaderClock(n.wall, meta.Now, latest), true
	}
}

// moveTimeOn lets the time of a term that began without an agreement of the clocks
// follow once there is one. Leases and workers count from there, as after a takeover.
func (r *reign) moveTimeOn(ctx context.Context) {
	if !r.behind.Load() || !r.node.clocksAgree() {
		return
	}
	if wall := r.node.wall().UnixMilli(); wall > r.clock.now()+clockBound.Milliseconds() {
		if err := r.registerAt(ctx, wall); err != nil {
			r.log.Warn("the time cannot move on yet", "error", err)
			return
		}
		r.clock.moveTo(wall)
		r.log.Info("a majority of the clocks agrees: the cluster's time moves on to it", "now", time.UnixMilli(wall).UTC())
	}
	r.behind.Store(false)
}

// moveTo moves the clock forward to a time, in ms.
func (c *leaderClock) moveTo(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = max(c.reading, ms*int64(time.Millisecond))
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

// heartbeatMs is the time that the document's heartbeat says. While the queue's time is
// behind the clocks, it is the wall clock's: legacy brokers and earlier releases take a
// broker for dead by the age of its heartbeat alone.
func (r *reign) heartbeatMs() int64 {
	if r.behind.Load() {
		return max(r.clock.now(), r.node.nowMs())
	}
	return r.clock.now()
}
