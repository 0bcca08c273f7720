package nemesis

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
)

// TestMain knows of a goroutine that a library of the GCS client starts on import.
func TestMain(m *testing.M) {
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// TestFaults plays some faults of each group in every test run. The soak plays the
// whole list, and combinations.
func TestFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	var mu sync.Mutex
	rounds, unanswered := 0, make(map[string]int)
	t.Cleanup(func() { // after all rounds
		for what, n := range unanswered {
			if n == rounds {
				t.Errorf("no round had an answer to %s", what)
			}
		}
	})
	for _, r := range []Round{
		{Name: "processes", Script: []string{"leader-killed", "leader-paused-past-fence", "leadership-transfer", "graceful-roll", "follower-killed", "all-killed", "edited-between-leaders"}},
		{Name: "all disks", Script: []string{"bucket-slow+all-disks-lost", "bucket-misbehaving+all-disks-lost", "all-disks-lost"}},
		{Name: "links", Script: []string{"leader-isolated", "one-way-in", "follower-isolated", "links-reset", "requests-replayed"}},
		{Name: "bucket", Script: []string{"late-put", "bucket-down", "bucket-losing-answers", "bucket-misbehaving", "leader-without-bucket", "credentials-rotated", "leader-bucket-reset", "rival"}},
		{Name: "directory", File: true, Script: []string{"bucket-root", "leader-killed", "mount-away", "bucket-emptied", "leader-frozen-in-write"}},
		{Name: "four nodes", Nodes: 4, Script: []string{"link-cut", "halves"}},
		{Name: "disks", SmallDisk: true, Script: []string{"log-flipped", "log-torn", "log-lost", "log-lost-another-lags", "disk-full", "node-wiped-leader-killed"}},
		{Name: "clocks and workers", Clock: true, Workers: 2, Script: []string{"clock-jump", "clock-drift", "clock-wrong-at-election", "disk-hung", "worker-killed", "worker-paused"}},
		{Name: "names of workers", Workers: 2, Script: []string{"worker-paused-claiming", "worker-replaced"}},
	} {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			r.Seed = freshSeed(t)
			o := Run(t, r)
			if o.Void != "" {
				t.Errorf("the round is void: %s", o.Void)
			}
			mu.Lock()
			rounds++
			for _, what := range o.Unanswered {
				unanswered[what]++
			}
			mu.Unlock()
			for _, f := range o.Faults {
				if !f.Hit && !excused(f.Proof) {
					t.Errorf("%s has missed: %s", f.Name, f.Proof)
				}
			}
		})
	}
}

// freshSeed is OSQUEUE_SEED, or another one each time.
func freshSeed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("OSQUEUE_SEED")
	if s == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("OSQUEUE_SEED: %v", err)
	}
	return seed
}
