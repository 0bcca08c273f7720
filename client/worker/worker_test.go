package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
	"osqueue/client/internal/sleep"
)

// bench is a worker on a fake queue, inside a bubble of synthetic time.
type bench struct {
	t      *testing.T
	queue  *fakeQueue
	worker *Worker
	stop   context.CancelFunc
	ended  chan error

	mu   sync.Mutex
	ends []Finished
}

func newBench(t *testing.T, q *fakeQueue, cfg Config) *bench {
	t.Helper()
	b := &bench{t: t, queue: q, ended: make(chan error, 1)}
	cfg.Finished = func(f Finished) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ends = append(b.ends, f)
	}
	w, err := New(q, cfg)
	check(t, err)
	b.worker = w
	return b
}

func (b *bench) start() {
	ctx, stop := context.WithCancel(b.t.Context())
	b.stop = stop
	go func() { b.ended <- b.worker.Run(ctx) }()
}

// inBubble calls test in a bubble of synthetic time, with a queue of n jobs of the type a and a worker that
// is not started yet.
func inBubble(t *testing.T, n int, cfg Config, test func(t *testing.T, q *fakeQueue, b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", n)
		test(t, q, newBench(t, q, cfg))
	})
}

// runFor runs the worker for d and returns its outcomes.
func (b *bench) runFor(d time.Duration) []Finished {
	b.t.Helper()
	b.start()
	time.Sleep(d)
	return b.mustFinish()
}

// finish stops the worker and returns its outcomes.
func (b *bench) finish() ([]Finished, error) {
	b.stop()
	err := <-b.ended
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ends, err
}

func (b *bench) mustFinish() []Finished {
	b.t.Helper()
	ends, err := b.finish()
	if err != nil {
		b.t.Fatal(err)
	}
	return ends
}

func takes(d time.Duration) HandlerFunc {
	return func(ctx context.Context, job Job) (json.RawMessage, error) {
		sleep.For(ctx, d)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return json.RawMessage(fmt.Sprintf("%q", job.ID)), nil
	}
}

func TestRunsEachJobOnceWithinItsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 60)
		q.add("b", 40)
		q.add("c", 1)
		b := newBench(t, q, Config{Concurrency: 7})
		var now atomic.Int32
		var mu sync.Mutex
		var most int32
		count := func(ctx context.Context, job Job) (json.RawMessage, error) {
			n := now.Add(1)
			defer now.Add(-1)
			mu.Lock()
			most = max(most, n)
			mu.Unlock()
			return takes(time.Second)(ctx, job)
		}
		b.worker.Handle("a", count)
		b.worker.Handle("b", count)
		ends := b.runFor(time.Minute)
		if len(ends) != 100 || q.count("completed") != 100 || q.count("unclaimed") != 1 {
			t.Fatalf("%d ended, %d completed, %d left", len(ends), q.count("completed"), q.count("unclaimed"))
		}
		if most != 7 {
			t.Fatalf("%d ran at once", most)
		}
		for _, f := range ends {
			if f.Outcome != Completed || f.Err != nil || string(f.Result) != fmt.Sprintf("%q", f.Job.ID) {
				t.Fatalf("%+v", f)
			}
		}
	})
}

func TestFailedJobsAreTriedAgain(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.HandleAny(func(_ context.Context, job Job) (json.RawMessage, error) {
			if job.Attempt < 3 {
				panic("not yet")
			}
			return nil, nil
		})
		ends := b.runFor(time.Second)
		if len(ends) != 3 {
			t.Fatalf("%+v", ends)
		}
		for _, f := range ends { // the next attempt may end before the hook of this one is called
			if want := map[bool]Outcome{true: Completed, false: Failed}[f.Job.Attempt == 3]; f.Outcome != want {
				t.Errorf("attempt %d: %s", f.Job.Attempt, f.Outcome)
			}
		}
	})
}

func TestRefusedClaimsEndTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		b := newBench(t, q, Config{})
		b.worker.Handle("a", takes(time.Second))
		q.failAll("claim", &client.Error{Op: "claim", Status: http.StatusBadRequest, Message: "lease too long"}, nil)
		b.start()
		if err := <-b.ended; err == nil || !strings.Contains(err.Error(), "lease too long") {
			t.Fatalf("got %v", err)
		}
		b.stop()
	})
}

func TestFailedClaimsAreRepeatedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		b := newBench(t, q, Config{})
		b.worker.Handle("a", takes(time.Second))
		q.setFault(func(op string) (error, error) { return unreachable(), nil })
		b.start()
		time.Sleep(5 * time.Minute)
		if n := q.called("claim"); n < 30 || n > 200 {
			t.Errorf("%d claims in five minutes", n)
		}
		q.setFault(nil)
		q.add("a", 1)
		time.Sleep(10 * time.Second)
		if ends := b.mustFinish(); len(ends) != 1 {
			t.Fatalf("%+v", ends)
		}
	})
}

// The cluster declares a worker dead that it does not hear of.
func TestIdleWorkerIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		b := newBench(t, q, Config{Name: "w1", Version: "v", Address: "here"})
		b.worker.Handle("b", takes(0))
		b.worker.Handle("a", takes(0))
		b.runFor(5 * time.Minute)
		if n := len(q.seenAt); n < 29 || n > 32 {
			t.Fatalf("%d registrations", n)
		}
		for i := range q.seenAt[1:] {
			if gap := q.seenAt[i+1].Sub(q.seenAt[i]); gap > 11*time.Second {
				t.Errorf("silent for %v", gap)
			}
		}
		got := q.seen[0]
		if got.Name != "w1" || len(got.Types) != 2 || got.Types[0] != "a" || got.Version != "v" || got.Address != "here" {
			t.Errorf("%+v", got)
		}
	})
}

func TestRegisterDue(t *testing.T) {
	zero := time.Unix(1000, 0)
	at := func(s int) time.Time { return zero.Add(time.Duration(s) * time.Second) }
	cases := []struct {
		name             string
		registered, seen time.Time
		want             time.Time
	}{
		{"never", time.Time{}, at(5), time.Time{}},
		{"silent since", at(0), at(0), at(10)},
		{"heard of later", at(0), at(7), at(17)},
		{"heard of all the time", at(0), at(59), at(60)},
	}
	for _, c := range cases {
		if got := registerDue(c.registered, c.seen, 10*time.Second); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A worker with long leases and no free slot is heard of by its registrations alone.
// When the clock is set back by an hour they must not stay away for one: after a minute
// its jobs would go to others.
func TestSilenceIsMonotonic(t *testing.T) {
	w, err := New(newFake(time.Second), Config{})
	check(t, err)
	s := newSession(t.Context(), w)
	registered := time.Now()
	s.seen()
	if due := registerDue(registered, s.heard(), w.cfg.KeepAlive); !strings.Contains(due.String(), " m=") {
		t.Errorf("the next registration follows the wall clock: %v", due)
	}
}

func TestMisuse(t *testing.T) {
	q := newFake(time.Second)
	w, err := New(q, Config{})
	check(t, err)
	if err := w.Run(t.Context()); !errors.Is(err, ErrNoHandler) {
		t.Errorf("got %v", err)
	}
	w.Handle("a", takes(0))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ended); err != nil {
		t.Errorf("got %v", err)
	}
	if err := w.Run(ended); !errors.Is(err, ErrRunTwice) {
		t.Errorf("got %v", err)
	}
	for name, misuse := range map[string]func(){
		"after Run": func() { w.Handle("b", takes(0)) },
		"no type":   func() { n, _ := New(q, Config{}); n.Handle("", takes(0)) },
		"twice":     func() { n, _ := New(q, Config{}); n.Handle("a", takes(0)); n.Handle("a", takes(0)) },
		"any twice": func() { n, _ := New(q, Config{}); n.HandleAny(takes(0)); n.HandleAny(takes(0)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse()
		}()
	}
}
