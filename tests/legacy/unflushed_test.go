package legacy

import (
	"testing"
	"time"

	osqueue "osqueue/client"
)

// TestUnflushedJobsOutliveAnLegacy kills all nodes after a quorum acknowledged jobs that
// were not flushed. A legacy broker serves in between. The jobs are there after the nodes
// restart on their disks.
func TestUnflushedJobsOutliveAnLegacy(t *testing.T) {
	t.Parallel()
	b := begin(t)
	c := b.ours(1)
	start(c)
	c.WaitLeader()
	b.flushed(c)
	b.store.Proxy(t).SetSlow(500 * time.Millisecond)
	var ids []string
	for range 50 {
		e, err := c.Client.Enqueue(t.Context(), osqueue.NewJob{Type: "q", Payload: []byte("1")})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.JobID)
	}
	c.KillAll()
	b.store.Proxy(t).Behave()
	b.store.Settle()
	old := b.legacy(patient)
	old.WaitServing()
	old.Kill()
	start(c)
	c.WaitLeader()
	b.checkAll(c, ids, nil)
}
