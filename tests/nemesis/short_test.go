package nemesis

import (
	"os"
	"strconv"
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
	for _, r := range []Round{
		{Name: "processes", Script: []string{"leader-killed", "leader-paused-past-fence", "leadership-transfer", "all-killed", "edited-between-leaders"}},
		{Name: "links", Script: []string{"leader-isolated", "one-way-in", "follower-isolated", "links-reset", "requests-replayed"}},
		{Name: "bucket", Script: []string{"late-put", "bucket-misbehaving", "leader-without-bucket", "credentials-rotated", "leader-bucket-reset", "rival"}},
		{Name: "directory", File: true, Script: []string{"bucket-root", "leader-killed", "mount-away", "bucket-emptied"}},
		{Name: "four nodes", Nodes: 4, Script: []string{"link-cut", "halves"}},
		{Name: "disks", SmallDisk: true, Script: []string{"log-flipped", "log-lost", "disk-full", "node-wiped-leader-killed"}},
		{Name: "clocks and workers", Clock: true, Workers: 2, Script: []string{"clock-jump", "clock-wrong-at-election", "worker-killed", "worker-paused"}},
		{Name: "names of workers", Workers: 2, Script: []string{"worker-paused-claiming", "worker-replaced"}},
	} {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			r.Seed = freshSeed(t)
			o := Run(t, r)
			if o.Void != "" {
				t.Errorf("the round is void: %s", o.Void)
			}
			if o.Streamed == 0 {
				t.Error("no write was answered over a stream")
			}
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
