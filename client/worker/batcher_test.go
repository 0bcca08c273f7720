package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"osqueue/client"
	"osqueue/client/internal/sleep"
)

// slowQueue answers completions and releases after a round trip.
type slowQueue struct {
	*fakeQueue
	roundTrip time.Duration
}

func (q slowQueue) CompleteBatch(ctx context.Context, worker string, jobs []client.Completion) ([]client.Beat, error) {
	sleep.For(ctx, q.roundTrip)
	return q.fakeQueue.CompleteBatch(ctx, worker, jobs)
}

func (q slowQueue) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	beats, err := q.CompleteBatch(ctx, next.Worker, jobs)
	return beats, nil, err
}

func (q slowQueue) ReleaseBatch(ctx context.Context, worker string, leases []client.Lease) ([]client.Beat, error) {
	sleep.For(ctx, q.roundTrip)
	return q.fakeQueue.ReleaseBatch(ctx, worker, leases)
}

// While one call is under way the reports of all other jobs gather for the
// next.
func TestReportsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 64)
		w, err := New(slowQueue{q, 100 * time.Millisecond}, Config{Concurrency: 64})
		check(t, err)
		w.Handle("a", takes(time.Second))
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		check(t, w.Run(ctx))
		if q.count("completed") != 64 || len(q.calledWith("complete")) != 2 {
			t.Errorf("%d completed by calls of %v", q.count("completed"), q.calledWith("complete"))
		}
	})
}

// While jobs wait for a slot reports are not in a hurry; as soon as none does,
// each is sent at once. Of the 100 ms with prefetched jobs, the first is reported at
// once, four calls are 20 ms apart, and when the last job starts, three more are sent:
// with what has waited, with the job before it if that missed this call, and with the last.
func TestReportsOfABusyWorkerArePaced(t *testing.T) {
	for _, c := range []struct{ prefetch, atLeast, atMost int }{{0, 100, 100}, {200, 5, 8}} {
		t.Run(fmt.Sprintf("prefetch %d", c.prefetch), func(t *testing.T) {
			inBubble(t, 100, Config{Concurrency: 1, Prefetch: c.prefetch}, func(t *testing.T, q *fakeQueue, b *bench) {
				b.worker.Handle("a", takes(time.Millisecond))
				b.runFor(time.Second)
				calls := len(q.calledWith("complete"))
				if q.count("completed") != 100 || calls < c.atLeast || calls > c.atMost {
					t.Errorf("%d completed by %d calls, want %d to %d", q.count("completed"), calls, c.atLeast, c.atMost)
				}
			})
		})
	}
}

// A delayed report is sent as soon as no job is left to run meanwhile, or none that the free
// slots may run: the capacity for the next jobs may depend on it.
func TestPacedReportsKeepNoSlotEmpty(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		long int // jobs that run without end, of a type with one slot
	}{
		"few places":            {cfg: Config{Concurrency: 1, Prefetch: 10}},
		"what waits may not go": {cfg: Config{Concurrency: 2, Prefetch: 4, PerType: map[string]int{"long": 1}}, long: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake(30 * time.Second)
				q.add("long", c.long)
				q.add("a", 100)
				b := newBench(t, q, c.cfg)
				b.worker.Handle("a", takes(100*time.Microsecond))
				b.worker.Handle("long", takes(time.Second))
				b.start()
				time.Sleep(50 * time.Millisecond)
				if n := q.count("completed"); n != 100 {
					t.Errorf("%d of 100 jobs, 10 ms of work, are completed", n)
				}
				b.mustFinish()
			})
		})
	}
}

// A result that the cluster refuses fails its own job, and no other.
func TestOneBadResultDoesNotSpoilTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 64)
		q.spoilt["j7"], q.spoilt["j50"] = true, true
		b := newBench(t, q, Config{Concurrency: 64})
		b.worker.queue = slowQueue{q, 100 * time.Millisecond}
		b.worker.Handle("a", takes(time.Second))
		b.runFor(10 * time.Second)
		if q.count("completed") != 62 || q.count("dead") != 2 {
			t.Fatalf("%d completed, %d dead", q.count("completed"), q.count("dead"))
		}
		for _, i := range []int{7, 50} {
			if j := q.job(i); !j.failure.Permanent || !strings.Contains(j.failure.Error, "too large") || j.attempts != 1 {
				t.Errorf("%+v", j)
			}
		}
		if n := len(q.calledWith("complete")); n > 30 {
			t.Errorf("%d calls", n)
		}
	})
}

// Each item is in one call and gets its own answer; there is one call at a time.
func TestBatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][]int
		under := 0
		b := &batcher[int]{
			size: func(n int) int { return n },
			send: func(items []int) ([]client.Beat, error) {
				if under++; under != 1 {
					t.Error("two calls at once")
				}
				time.Sleep(time.Second)
				under--
				calls = append(calls, slices.Clone(items))
				beats := make([]client.Beat, len(items))
				for i, n := range items {
					if n%2 == 1 {
						beats[i].Tag = fmt.Sprint(n)
					}
				}
				return beats, nil
			},
		}
		var wg sync.WaitGroup
		const most = batchBytes / 100
		for i := range 300 {
			wg.Go(func() {
				err := b.do(most + i)
				var e *client.Error
				if odd := (most+i)%2 == 1; odd != (err != nil) || odd && (!errors.As(err, &e) || e.Tag != fmt.Sprint(most+i)) {
					t.Errorf("%d: %v", most+i, err)
				}
			})
		}
		wg.Wait()
		all := slices.Concat(calls...)
		slices.Sort(all)
		if len(all) != 300 || len(slices.Compact(all)) != 300 {
			t.Errorf("%d items, %d different", len(all), len(slices.Compact(all)))
		}
		for _, c := range calls {
			bytes := 0
			for _, n := range c {
				bytes += n
			}
			if bytes > batchBytes && len(c) > 1 {
				t.Errorf("a call of %d bytes", bytes)
			}
		}
		if len(calls) > 8 {
			t.Errorf("%d calls", len(calls))
		}
		if b.busy || len(b.waiting) != 0 {
			t.Error("somebody still waits")
		}
		if err := b.do(2 * batchBytes); err != nil { // more than a call should have, and yet sent
			t.Error(err)
		}
	})
}

func TestBatcherHoldsNoMoreJobsThanACall(t *testing.T) {
	inBubble(t, 2500, Config{Concurrency: 2500}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.queue = slowQueue{q, time.Second}
		b.worker.Handle("a", func(context.Context, Job) (json.RawMessage, error) { return nil, nil })
		b.runFor(time.Minute)
		if q.count("completed") != 2500 {
			t.Errorf("%d completed", q.count("completed"))
		}
		if n := slices.Max(q.calledWith("complete")); n > client.MaxBatchJobs {
			t.Errorf("a call of %d", n)
		}
	})
}

// Results may be large: an idle worker keeps none of those that it has reported.
func TestBatcherKeepsNothing(t *testing.T) {
	type large [1 << 20]byte
	b := &batcher[*large]{
		size: func(*large) int { return 1 },
		send: func(items []*large) ([]client.Beat, error) { return make([]client.Beat, len(items)), nil },
	}
	item := new(large)
	left := weak.Make(item)
	check(t, b.do(item))
	runtime.GC()
	if left.Value() != nil {
		t.Error("what was reported is still there")
	}
	runtime.KeepAlive(b)
}
