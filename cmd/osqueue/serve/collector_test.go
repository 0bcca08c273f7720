package serve

import "testing"

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		live, inflight, target int64
		want                   int
	}{
		{0, 0, 128 * mib, mostPercent},
		{4 * mib, 0, 128 * mib, mostPercent},
		{32 * mib, 0, 128 * mib, 300},
		{64 * mib, 0, 128 * mib, 100},
		{100 * mib, 0, 128 * mib, 100},
		{1000 * mib, 0, 128 * mib, 100},
		{10 * mib, 0, 0, 100},
		{160 * mib, 128 * mib, 96 * mib, 20},
		{160 * mib, 200 * mib, 96 * mib, 20}, // some are collected already
		{1000 * mib, 250 * mib, 96 * mib, 50},
		{320 * mib, 150 * mib, 96 * mib, 10}, // the least growth
		{80_000 * mib, 80_000 * mib, 96 * mib, 10},
	} {
		if got := gcPercent(test.live, test.inflight, test.target); got != test.want {
			t.Errorf("gcPercent(%d, %d, %d) = %d, want %d", test.live, test.inflight, test.target, got, test.want)
		}
	}
}

// Memory is released once after each load, and not for the little that an idle node
// allocates.
func TestCollectorGivesBackOnceAfterALoad(t *testing.T) {
	c := newCollector(defaultMemoryTarget, nil)
	allocated, live := int64(0), int64(0)
	looks := func(n int, each int64) (released int) {
		for range n {
			allocated += each
			if c.idle(allocated, live) {
				released++
			}
		}
		return released
	}
	if got := looks(20, 0); got != 0 {
		t.Errorf("before the first load: %d times", got)
	}
	for range 2 {
		if got := looks(3, 100<<20); got != 0 {
			t.Errorf("during a load: %d times", got)
		}
		if got := looks(quietLooks-1, 1000); got != 0 {
			t.Errorf("in a short break: %d times", got)
		}
		if got := looks(100, 1000); got != 1 {
			t.Errorf("after a load: %d times", got)
		}
	}
	live = 1 << 30
	looks(2, 100<<20)
	if got := looks(100, 1000); got != 0 {
		t.Errorf("after a load that is small beside the heap: %d times", got)
	}
}
