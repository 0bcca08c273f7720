package e2e

import (
	"testing"
	"time"
)

// The bucket fails at random while the cluster works. Clients notice nothing, no leader loses
// the document, and at the end all jobs are there. OSQUEUE_SEED repeats the random choices.
func TestBucketMisbehaves(t *testing.T) {
	t.Parallel()
	seed := freshSeed(t)
	t.Logf("OSQUEUE_SEED=%d", seed)
	c, s, p := startBehindProxy(t)
	before, err := c.WaitLeader().Status()
	if err != nil {
		t.Fatal(err)
	}
	p.Misbehave(seed, 0.3)
	l := startLoad(t, c)
	l.object = true
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		l.waitSent(20)
	}
	p.Behave()
	l.finish()
	if err := l.ledger.CheckSafe(allJobs(t, c)); err != nil {
		t.Error(err)
	}
	s.Settle()
	waitFlushed(t, c)
	keptFence(t, c, before)
	jobs, completions := l.ledger.Safe()
	t.Logf("in the bucket by their answers: %d jobs, %d completions; faults: %v", jobs, completions, p.Hits())
	if jobs == 0 || completions == 0 {
		t.Error("nothing ever reached the bucket in time")
	}
	checkDocuments(t, c, s)
}
