package cluster

import (
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

func TestLeaderClockStartsAtTheMachine(t *testing.T) {
	at := time.UnixMilli(5_000)
	c := newLeaderClock(func() time.Time { return at }, 9_000)
	if got := c.now(); got != 9_000 {
		t.Fatalf("clock starts at %d, want the machine's 9000", got)
	}
	at = at.Add(time.Second)
	if got := c.now(); got != 9_900 {
		t.Fatalf("after a second: %d, want 9900 (slewed back by a tenth)", got)
	}
}
