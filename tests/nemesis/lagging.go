package nemesis

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/history"
)

// laggingFaults let followers fall behind by many bytes.
var laggingFaults = []Fault{
	{Name: "lagging-large", Needs: NeedLinks, Begin: lagLarge, Alone: true},
}

// The entries that a lagging follower lacks take longer over its link than raft waits
// for the answer to a request (10 s): they arrive only if requests are cut.
const (
	largeJobs  = 8
	largeBytes = 200 << 10
	largeRate  = 140 << 10 // bytes a second
	largeTime  = 2 * time.Minute
)

// lagLarge kills a follower, enqueues large jobs, and lets it come back over a narrow
// link. It has to catch up.
func lagLarge(w *World, s *history.FaultSpan) func() {
	n := w.follower()
	n.Kill()
	for range largeJobs {
		w.enqueueLarge()
	}
	goal, err := w.Cluster.WaitLeader().Status()
	if err != nil {
		w.T.Fatal(err)
	}
	narrow := w.Cluster.Net().Impose(link.Condition{Rate: largeRate}, link.Link{To: n.Name, Service: link.Raft})
	n.Start()
	began := time.Now()
	err = cluster.Poll(largeTime, func() error {
		st, err := n.OwnStatus()
		if err == nil && st.Applied < goal.CommitIndex {
			err = fmt.Errorf("%s has applied %d of %d entries", n.Name, st.Applied, goal.CommitIndex)
		}
		return err
	})
	took := time.Since(began).Round(100 * time.Millisecond)
	narrow.Heal()
	switch {
	case err != nil:
		w.T.Errorf("a follower that lacks %d entries of %d bytes does not catch up within %v: %v", largeJobs, largeBytes, largeTime, err)
	case !narrow.Hit():
		s.Missed("nothing was delayed")
	default:
		s.Hit(fmt.Sprintf("%s caught up with %d entries of %d bytes in %v; %s", n.Name, largeJobs, largeBytes, took, narrow.Count()))
	}
	return func() { w.serves(n) }
}

// enqueueLarge adds a job with a large payload, and notes it.
func (w *World) enqueueLarge() {
	op := w.Rec.Begin(history.Op{
		Client: "nemesis", Kind: history.Enqueue, Job: uuid.NewString(), Type: "large", Request: uuid.NewString(), MaxAttempts: 10,
		Payload: `"` + strings.Repeat("large ", largeBytes/6) + `"`,
	})
	attempts := int32(op.MaxAttempts)
	ctx := client.WithIdempotencyKey(w.Cluster.Context(heldWithin), op.Request)
	e, err := w.Cluster.Client.Enqueue(ctx, client.NewJob{ID: op.Job, Type: op.Type, Payload: []byte(op.Payload), MaxAttempts: &attempts})
	if op.Outcome = history.OK; err != nil {
		op.Outcome, op.Error = history.Unknown, err.Error()
	} else if op.LSN, err = history.ParseLSN(e.LSN); err != nil {
		w.T.Fatal(err)
	}
	w.Rec.Op(op)
}
