package leader

import (
	"math"
	"testing"
	"time"
)

func TestSlew(t *testing.T) {
	const s = int64(time.Second)
	year := 365 * 24 * 3600 * s
	for _, c := range []struct {
		name           string
		reading        int64
		elapsed        time.Duration
		wall, wantNext int64
	}{
		{"in step", 100 * s, time.Second, 101 * s, 101 * s},
		{"wall a year ahead", 100 * s, time.Second, 100*s + year, 101*s + s/10},
		{"wall a year back", 100 * s, time.Second, 100*s - year, 101*s - s/10},
		{"a little behind", 100 * s, time.Second, 101*s + s/20, 101*s + s/20},
		{"no time passed", 100 * s, 0, 200 * s, 100 * s},
	} {
		if got := slew(c.reading, c.elapsed, c.wall); got != c.wantNext {
			t.Errorf("%s: got %d, want %d", c.name, got, c.wantNext)
		}
	}
}

// handClock has both clocks of a computer, which the test moves.
type handClock struct{ at, since time.Time }

func (h *handClock) wall() time.Time { return h.at }
func (h *handClock) mono() time.Time { return h.since }

func (h *handClock) pass(d time.Duration) { h.at, h.since = h.at.Add(d), h.since.Add(d) }

func TestLeaderClockStartsAtTheMachine(t *testing.T) {
	h := &handClock{at: time.UnixMilli(5_000)}
	c := startLeaderClock(h.wall, h.mono, 9_000, math.MaxInt64)
	if got := c.now(); got != 9_000 {
		t.Fatalf("clock starts at %d, want the machine's 9000", got)
	}
	h.pass(time.Second)
	if got := c.now(); got != 9_900 {
		t.Fatalf("after a second: %d, want 9900 (slewed back by a tenth)", got)
	}
}

func TestLeaderClockOutlivesJumpsOfTheWallClock(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		h := &handClock{at: time.UnixMilli(1_000_000_000)}
		c := startLeaderClock(h.wall, h.mono, 0, math.MaxInt64)
		h.at = h.at.Add(jump)
		if got := c.now(); got != 1_000_000_000 {
			t.Errorf("a jump by %v alone moved the clock by %d ms", jump, got-1_000_000_000)
		}
		h.pass(10 * time.Second)
		want := int64(1_000_000_000 + 11_000)
		if jump < 0 {
			want = 1_000_000_000 + 9_000
		}
		if got := c.now(); got != want {
			t.Errorf("ten seconds after a jump by %v: %d, want %d", jump, got, want)
		}
	}
}

// The clock that a node creates measures elapsed time itself, and not with the wall clock
// that it was given.
func TestLeaderClockOfAStandingWallClock(t *testing.T) {
	wall := time.UnixMilli(1_000)
	c := newLeaderClock(func() time.Time { return wall }, 0, math.MaxInt64)
	time.Sleep(50 * time.Millisecond)
	if got := c.now(); got < 1_000+40 {
		t.Errorf("50 ms after its start the clock stands at %d, having begun at 1000", got)
	}
}

func TestLeaderClockStartsAtTheLatest(t *testing.T) {
	h := &handClock{at: time.UnixMilli(1_000_000)}
	if got := startLeaderClock(h.wall, h.mono, 5_000, 9_000).now(); got != 9_000 {
		t.Errorf("a wall clock that is ahead: %d, want 9000", got)
	}
	if got := startLeaderClock(h.wall, h.mono, 995_000, 2_000_000).now(); got != 1_000_000 {
		t.Errorf("a wall clock in bounds: %d, want 1000000", got)
	}
}

// A process that stood still does not let the time of its leases pass: the clock continues from
// where it was, and gets the time that is missing when all leases are extended.
func TestLeaderClockAfterAStandStill(t *testing.T) {
	h := &handClock{at: time.UnixMilli(1_000_000)}
	c := startLeaderClock(h.wall, h.mono, 0, math.MaxInt64)
	c.setWatched(true)
	h.pass(8 * time.Second)
	if got := c.now(); got != 1_000_000 {
		t.Fatalf("the clock moved by %d ms at once", got-1_000_000)
	}
	h.pass(time.Second / 2)
	ms, stood, ok := c.awake()
	if !ok || stood != 8*time.Second || ms < 1_008_500 {
		t.Fatalf("the process stood still for %v (%v), and goes on at %d", stood, ok, ms)
	}
	c.resume(stood)
	if got := c.now(); got < ms {
		t.Fatalf("the clock is at %d after the leases were extended at %d", got, ms)
	}
	if _, _, ok := c.awake(); ok {
		t.Fatal("the leases are extended again")
	}
}
