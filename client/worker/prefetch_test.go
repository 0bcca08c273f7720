package worker

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
)

// starts records which claims were started.
type starts struct {
	mu     sync.Mutex
	tokens map[string][]uint64
}

func (s *starts) around(fn HandlerFunc) HandlerFunc {
	return func(ctx context.Context, job Job) (json.RawMessage, error) {
		s.mu.Lock()
		if s.tokens == nil {
			s.tokens = make(map[string][]uint64)
		}
		s.tokens[job.ID] = append(s.tokens[job.ID], job.Token)
		s.mu.Unlock()
		return fn(ctx, job)
	}
}

func (s *starts) of(id string) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[id]
}

func (s *starts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens)
}

func outcomes(ends []Finished) map[string]Outcome {
	m := make(map[string]Outcome)
	for _, f := range ends {
		m[f.Job.ID] = f.Outcome
	}
	return m
}

// A prefetched job keeps its lease, however long it waits.
func TestPrefetchHoldsAheadAndRenews(t *testing.T) {
	inBubble(t, 12, Config{Concurrency: 2, Prefetch: 4}, func(t *testing.T, q *fakeQueue, b *bench) {
		var s starts
		b.worker.Use(s.around)
		b.worker.Handle("a", takes(2*time.Minute))
		b.start()
		time.Sleep(time.Second)
		if held, begun := q.count("in_progress"), s.count(); held != 6 || begun != 2 {
			t.Fatalf("%d held, %d started", held, begun)
		}
		time.Sleep(13 * time.Minute)
		if ends := b.mustFinish(); len(ends) != 12 || q.count("completed") != 12 {
			t.Fatalf("%d ended, %d completed", len(ends), q.count("completed"))
		}
		for i := range 12 {
			if j := q.job(i + 1); j.attempts != 1 {
				t.Errorf("job %d had %d attempts", i+1, j.attempts)
			}
		}
	})
}

// Jobs that wait are settled as soon as there is a reason not to start them,
// not when their turn comes.
func TestWhatIsNotToBeDoneNeverStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 4)
		q.jobs[3].timeout = 25 * time.Second
		b := newBench(t, q, Config{Concurrency: 1, Prefetch: 3})
		var s starts
		b.worker.Use(s.around)
		b.worker.Handle("a", takes(time.Minute))
		b.start()
		time.Sleep(time.Second)
		q.steal(2)
		q.cancel(3)
		q.mu.Lock()
		q.jobs[1].jobType, q.jobs[3].jobType = "others", "others" // not to be claimed again
		q.mu.Unlock()
		time.Sleep(40 * time.Second)
		if q.job(3).status != "cancelled" || q.job(4).ended != "timeout" {
			t.Errorf("job 3 is %s, 4 ended by %q", q.job(3).status, q.job(4).ended)
		}
		time.Sleep(time.Minute)
		got := outcomes(b.mustFinish())
		want := map[string]Outcome{"j1": Completed, "j2": Lost, "j3": Cancelled, "j4": TimedOut}
		for id, o := range want {
			if got[id] != o {
				t.Errorf("%s: %s, want %s", id, got[id], o)
			}
		}
		if s.count() != 1 {
			t.Errorf("started: %v", s.tokens)
		}
	})
}

// If no heartbeat is answered for a whole lease, another worker may have the
// waiting job: the worker releases it and does not start it.
func TestUnsureJobNeverStarts(t *testing.T) {
	inBubble(t, 2, Config{Concurrency: 1, Prefetch: 1}, func(t *testing.T, q *fakeQueue, b *bench) {
		var s starts
		b.worker.Use(s.around)
		b.worker.Handle("a", func(context.Context, Job) (json.RawMessage, error) {
			time.Sleep(2 * time.Minute)
			return nil, nil
		})
		b.start()
		time.Sleep(15 * time.Second)
		first := q.job(2).token
		q.setFault(func(string) (error, error) { return unreachable(), nil })
		time.Sleep(time.Minute)
		q.extend()
		q.setFault(nil)
		time.Sleep(5 * time.Minute)
		b.mustFinish()
		if got := s.of("j2"); len(got) != 1 || got[0] == first {
			t.Errorf("started with the tokens %v; %d was the unsure one", got, first)
		}
		if q.job(2).accepted != 1 || q.job(1).accepted != 1 {
			t.Errorf("%+v", q.jobs)
		}
	})
}

// A stopping worker releases the waiting jobs before the running jobs have ended.
func TestStopGivesBackWhatWaitsFirst(t *testing.T) {
	inBubble(t, 6, Config{Concurrency: 2, Prefetch: 3}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.queue = slowQueue{q, 100 * time.Millisecond}
		var s starts
		b.worker.Use(s.around)
		b.worker.Handle("a", takes(20*time.Second))
		b.start()
		time.Sleep(time.Second)
		b.stop()
		time.Sleep(time.Second / 4)
		if q.count("unclaimed") != 4 || q.count("in_progress") != 2 {
			t.Errorf("%d unclaimed, %d in progress", q.count("unclaimed"), q.count("in_progress"))
		}
		if sizes := q.calledWith("release"); len(sizes) > 2 {
			t.Errorf("given back by calls of %v", sizes)
		}
		got := outcomes(b.mustFinish())
		if q.count("completed") != 2 || s.count() != 2 || len(got) != 5 {
			t.Errorf("%d completed, %d started, %v", q.count("completed"), s.count(), got)
		}
		for i := range 4 {
			if j := q.job(i + 3); j.attempts != 0 || j.status != "unclaimed" {
				t.Errorf("%+v", j)
			}
		}
	})
}

// An idle worker sends one long poll, and its keepalive.
func TestWhatAnIdleWorkerCosts(t *testing.T) {
	for name, cfg := range map[string]Config{
		"plain":    {Concurrency: 8},
		"prefetch": {Concurrency: 8, Prefetch: 100},
		"limits":   {Concurrency: 8, Prefetch: 100, PerType: map[string]int{"a": 1, "b": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake(30 * time.Second)
				q.add("a", 20) // idle after work, as it comes
				cfg.PollWait = 10 * time.Second
				b := newBench(t, q, cfg)
				for _, jobType := range []string{"a", "b", "c"} {
					b.worker.Handle(jobType, takes(time.Second))
				}
				b.start()
				time.Sleep(time.Minute)
				if q.count("completed") != 20 {
					t.Fatalf("%d completed", q.count("completed"))
				}
				before := q.counts()
				time.Sleep(200 * time.Second)
				after := q.counts()
				b.mustFinish()
				for op, n := range after {
					most := map[string]int{"claim": 200 / 10, "register": 200 / 10}[op]
					if n -= before[op]; n > most+1 || n < most-1 {
						t.Errorf("%d calls of %s in 200 idle seconds; want %d", n, op, most)
					}
				}
			})
		})
	}
}

// A job whose context ends between the moment it gets a slot and the start of
// its goroutine does not start either.
func TestEndedJobIsNotStartedInItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 1)
		w, err := New(q, Config{Name: "w", Concurrency: 1})
		check(t, err)
		w.Handle("a", func(context.Context, Job) (json.RawMessage, error) {
			t.Error("started")
			return nil, nil
		})
		s := newSession(t.Context(), w)
		a, ok := s.capacity.request(time.Now(), time.Second)
		jobs, _ := q.Claim(t.Context(), client.ClaimOptions{Worker: "w", Max: 1, RequestID: "r"})
		if !ok || len(jobs) != 1 {
			t.Fatal("nothing to do")
		}
		h := s.newLease(jobs[0])
		s.leases.add(h)
		if start, _ := s.capacity.granted(a, []*lease{h}); len(start) != 1 {
			t.Fatal("no slot")
		}
		h.cancelled()
		s.execute(h)
		if j := q.job(1); j.ended != "failed" || j.failure.Error != ErrCancelled.Error() {
			t.Errorf("%+v", j)
		}
		if len(s.leases.all()) != 0 || s.capacity.held != 0 || s.capacity.running != 0 {
			t.Error("something is still held")
		}
	})
}
