package leader

import (
	"context"
	"math"
	"sync"
	"time"

	"osqueue/internal/sleep"
)

// leaderClock is the clock of an active leader. It starts at the later of the machine's
// time and the wall clock, as far as the wall clock can be trusted. It advances with the
// monotonic clock and is slewed towards the wall clock by at most a tenth of the elapsed
// time, so a wall clock that jumps neither expires a lease nor stops the time. Safe for
// concurrent use.
type leaderClock struct {
	// wall and mono are two sources: adding an offset to a time.Time, as Node.wall and
	// tests do, moves its monotonic reading, too. So elapsed time is computed from mono
	// only.
	wall, mono func() time.Time

	mu      sync.Mutex
	last    time.Time // reading of mono
	reading int64     // ns since 1970
	watched bool      // watch runs
	// stood is for how long the process has stood still. reading does not have it yet.
	stood time.Duration
}

// clockTick is the time between two readings of watch.
const clockTick = 250 * time.Millisecond

// standStill is the time without a reading from which on the process stood still: it was
// stopped, or its machine was. No worker could renew a lease.
const standStill = 4 * clockTick

// watch reads the clock all the time, until ctx ends: a gap between two readings shows that
// the process stood still.
func (c *leaderClock) watch(ctx context.Context) {
	c.now()
	c.setWatched(true)
	defer c.setWatched(false)
	for sleep.For(ctx, clockTick) {
		c.now()
	}
}

func (c *leaderClock) setWatched(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = on
}

// awake returns the time at which the queue is to go on after the process has stood still, in
// ms; ok is false if it has not.
func (c *leaderClock) awake() (ms int64, stood time.Duration, ok bool) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return now + c.stood.Milliseconds(), c.stood, c.stood > 0
}

// resume adds the time for which the process stood still, up to stood.
func (c *leaderClock) resume(stood time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading += int64(stood)
	c.stood -= stood
}

// newLeaderClock returns a clock that is slewed towards wall. It starts at the wall
// clock, but not before machineMs, the machine's time, nor after latestMs.
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

// takeoverSlack is by how much a takeover without an agreement of the clocks may advance
// the machine's time, in addition to the time that has passed since the last entry.
const takeoverSlack = 2 * time.Second

// startClock returns the clock of a leader term. It starts at the wall clock if a
// majority of the clocks agree, if the machine has no time yet, or if the wall clock is
// at most takeoverSlack ahead of the expected time. Otherwise limited is true, and the
// clock starts no later than the machine's time plus the time that has passed since the
// last entry and takeoverSlack.
func (l *Leader) startClock(ctx context.Context) (c *leaderClock, limited bool) {
	meta := l.meta()
	const always = math.MaxInt64
	latest := meta.NowMs + (l.do.Idle() + takeoverSlack).Milliseconds()
	// Check this node's own clock, too: the readings behind do.Wall may be older than a
	// jump of all the clocks.
	if max(l.nowMs(), l.do.Wall().UnixMilli()) <= latest {
		return newLeaderClock(l.do.Wall, meta.NowMs, always), false
	}
	l.do.MeasureClocks(ctx)
	switch wall := l.do.Wall().UnixMilli(); {
	case wall <= latest, meta.NowMs == 0, l.do.ClocksAgree():
		return newLeaderClock(l.do.Wall, meta.NowMs, always), false
	default:
		l.log.Error("this node's clock is ahead of the cluster's time, and the clocks of a majority do not agree "+
			"with it: time continues from its last value; check NTP on all nodes", "ahead_by", time.Duration(wall-meta.NowMs)*time.Millisecond)
		return newLeaderClock(l.do.Wall, meta.NowMs, latest), true
	}
}

// goOn advances the clock after the process stood still. The entries before it have the time
// of before, so that none of them ends a lease. From the new time on all leases and worker
// timeouts start again, as after a takeover.
func (t *Term) goOn(ctx context.Context) {
	now, stood, ok := t.clock.awake()
	if !ok {
		return
	}
	if err := t.registerAt(ctx, now); err != nil {
		t.log.Debug("cannot extend the leases yet", "error", err)
		return
	}
	t.clock.resume(stood)
	t.log.Warn("this process stood still; all leases are extended", "for", stood.Round(time.Millisecond))
}

// moveTimeOn advances the clock of a leader term that began without an agreement of the
// clocks, once there is one. Leases and worker timeouts start again from the new time, as
// after a takeover.
func (t *Term) moveTimeOn(ctx context.Context) {
	if !t.behind.Load() || !t.do.ClocksAgree() {
		return
	}
	if wall := t.do.Wall().UnixMilli(); wall > t.clock.now()+ClockBound.Milliseconds() {
		if err := t.registerAt(ctx, wall); err != nil {
			t.log.Warn("the time cannot advance yet", "error", err)
			return
		}
		t.clock.moveTo(wall)
		t.log.Info("the clocks of a majority agree: the cluster's time advances to them", "now", time.UnixMilli(wall).UTC())
	}
	t.behind.Store(false)
}

// moveTo advances the clock to ms; it never moves the clock back.
func (c *leaderClock) moveTo(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = max(c.reading, ms*int64(time.Millisecond))
}

// now returns the time in milliseconds since 1970. It never decreases.
func (c *leaderClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.mono()
	elapsed := t.Sub(c.last)
	c.last = t
	if c.watched && elapsed > standStill {
		c.stood += elapsed
		elapsed = 0
	}
	c.reading = slew(c.reading, elapsed, c.wall().UnixNano())
	return c.reading / int64(time.Millisecond)
}

// slew advances reading by elapsed, corrected towards wall by at most a tenth of elapsed.
// All are in nanoseconds.
func slew(reading int64, elapsed time.Duration, wall int64) int64 {
	if elapsed <= 0 {
		return reading
	}
	ahead := reading + int64(elapsed)
	limit := int64(elapsed) / 10
	return ahead + min(max(wall-ahead, -limit), limit)
}

// heartbeatMs returns the time of the document's heartbeat, in ms. While the queue's time
// is behind the clocks, it is the wall clock: legacy brokers judge by the age of the heartbeat
// alone whether a broker is dead.
func (t *Term) heartbeatMs() int64 {
	if t.behind.Load() {
		return max(t.clock.now(), t.nowMs())
	}
	return t.clock.now()
}
