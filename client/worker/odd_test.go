package worker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
)

// oddQueue returns each job of a claim twice, and the jobs of the first claim again with the
// second.
type oddQueue struct {
	*fakeQueue
	claims atomic.Int32
	first  []client.ClaimedJob
}

func (q *oddQueue) Claim(ctx context.Context, o client.ClaimOptions) ([]client.ClaimedJob, error) {
	jobs, err := q.fakeQueue.Claim(ctx, o)
	if len(jobs) == 0 {
		return jobs, err
	}
	switch q.claims.Add(1) {
	case 1:
		q.first = jobs
	case 2:
		return slices.Concat(jobs, jobs, q.first), err
	}
	return slices.Concat(jobs, jobs), err
}

// A claim that is returned several times runs once: one handler, one outcome, one unit of
// capacity.
func TestAJobToldOfTwiceIsHeldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 1)
		b := newBench(t, q, Config{Concurrency: 4})
		b.worker.queue = &oddQueue{fakeQueue: q}
		var calls atomic.Int32
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			calls.Add(1)
			return takes(10*time.Second)(ctx, job)
		})
		b.start()
		time.Sleep(time.Second)
		q.add("a", 5)
		time.Sleep(time.Minute)
		ends := b.mustFinish()
		if calls.Load() != 6 || len(ends) != 6 || q.count("completed") != 6 {
			t.Errorf("%d handlers, %d outcomes, %d completed; want 6 of each", calls.Load(), len(ends), q.count("completed"))
		}
	})
}

// A worker stops when its client is closed, instead of repeating its claims without
// end.
func TestAClosedClientEndsTheRun(t *testing.T) {
	c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:1"}, Transport: accepting{}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(c, Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("a", takes(0))
	time.AfterFunc(50*time.Millisecond, c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := w.Run(ctx); ctx.Err() != nil || !errors.Is(err, client.ErrClosed) {
		t.Errorf("%v; the context ended: %v", err, ctx.Err())
	}
}

// choosyQueue refuses heartbeats that are too large for it, or name a certain job.
type choosyQueue struct {
	*fakeQueue
	most  int
	spoil string
}

func (q choosyQueue) Heartbeat(ctx context.Context, worker string, leases []client.Lease) ([]client.Beat, error) {
	spoilt := slices.ContainsFunc(leases, func(l client.Lease) bool { return l.JobID == q.spoil })
	if spoilt || len(leases) > q.most {
		q.enter("refused")
		return nil, &client.Error{Op: "heartbeat", Status: http.StatusRequestEntityTooLarge, Committed: client.CommittedNo}
	}
	return q.fakeQueue.Heartbeat(ctx, worker, leases)
}

// A refused heartbeat is sent in parts: a fault of one lease, or too many leases in one call,
// does not cost other leases.
func TestARefusedHeartbeatCostsNoOtherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 20)
		b := newBench(t, q, Config{Concurrency: 20})
		b.worker.queue = choosyQueue{fakeQueue: q, most: 6, spoil: "j3"}
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			job.Progress(50, "half")
			return takes(100*time.Second)(ctx, job)
		})
		b.start()
		time.Sleep(99 * time.Second)
		refused := q.called("refused")
		time.Sleep(10 * time.Second)
		b.mustFinish()
		for i := range 20 {
			if j := q.job(i + 1); j.id != "j3" && (j.status != "completed" || j.attempts != 1 || len(j.told) != 1) {
				t.Errorf("%s is %s after %d attempts; progress was told %d times", j.id, j.status, j.attempts, len(j.told))
			}
		}
		if refused > 200 {
			t.Errorf("%d heartbeats were refused in 99 s", refused)
		}
	})
}

// closedQueue takes no reports any more, as a client that was closed meanwhile.
type closedQueue struct{ *fakeQueue }

func (q closedQueue) CompleteBatch(context.Context, string, []client.Completion) ([]client.Beat, error) {
	q.enter("complete")
	return nil, &client.Error{Op: "complete batch", Committed: client.CommittedNo, Err: client.ErrClosed}
}

// That the client is closed is no fault of a result.
func TestAClosedClientFailsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 1)
		b := newBench(t, q, Config{})
		b.worker.queue = closedQueue{q}
		b.worker.Handle("a", takes(time.Second))
		b.start()
		time.Sleep(5 * time.Second)
		ends, err := b.finish()
		if err == nil || len(ends) != 1 || ends[0].Outcome != Unreported || !errors.Is(ends[0].Err, client.ErrClosed) {
			t.Errorf("%v, %+v", err, ends)
		}
		if q.called("complete") != 1 || q.called("fail") != 0 {
			t.Errorf("%v", q.counts())
		}
	})
}
