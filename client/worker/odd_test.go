package worker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
)

// oddQueue tells of each job of a claim twice, and of those of the first claim again
// with the second.
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

// A claim is held once, however often the cluster tells of it: one handler, one
// outcome, one place.
func TestAJobToldOfTwiceIsHeldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 1)
		b := newBench(t, q, Config{Concurrency: 4})
		b.worker.queue = &oddQueue{fakeQueue: q}
		var calls atomic.Int32
		b.worker.Handle("a", func(ctx context.Context, job Job) (jsontext.Value, error) {
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

// A client that is closed stays so: a worker that asked on would do so for ever.
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
