package original

import (
	"testing"
	"time"

	osqueue "osqueue/client"
)

// What a quorum had acknowledged, and the bucket had not when all nodes died, is there
// after an original broker's tenure in between: the disks are kept.
func TestUnflushedJobsOutliveAnOriginal(t *testing.T) {
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
	old := b.original(patient)
	old.WaitServing()
	old.Kill()
	start(c)
	c.WaitLeader()
	b.checkAll(c, ids, nil)
}
