package serve

import "testing"

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		live, target int64
		want         int
	}{
		{0, 128 * mib, mostPercent},
		{4 * mib, 128 * mib, mostPercent},
		{32 * mib, 128 * mib, 300},
		{64 * mib, 128 * mib, 100},
		{100 * mib, 128 * mib, leastPercent},
		{1000 * mib, 128 * mib, leastPercent},
		{10 * mib, 0, leastPercent},
	} {
		if got := gcPercent(test.live, test.target); got != test.want {
			t.Errorf("gcPercent(%d, %d) = %d, want %d", test.live, test.target, got, test.want)
		}
	}
}

// Memory is released once after each load, and not for the little that an idle node
// allocates.
func TestCollectorGivesBackOnceAfterALoad(t *testing.T) {
	c := newCollector(defaultMemoryTarget)
	allocated := int64(0)
	looks := func(n int, each int64) (released int) {
		for range n {
			allocated += each
			if c.idle(allocated) {
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
}
