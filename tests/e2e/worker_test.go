package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"osqueue/api/core"
	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
)

// Two workers on a real cluster whose leader is killed: each job is completed
// once, and no handler notices.
func TestLeaderIsKilledUnderWorkers(t *testing.T) {
	cluster, c := start(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	const jobs = 400
	l := newLedger(jobs)
	for i := range 2 {
		w, err := worker.New(c, worker.Config{
			Name: fmt.Sprintf("w%d", i), Concurrency: 8, Prefetch: 16, Lease: 10 * time.Second, PollWait: time.Second, Finished: l.finished,
		})
		check(t, err)
		w.Handle("t", func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
			job.Progress(50, "half")
			job.Log("did " + job.ID)
			select {
			case <-time.After(50 * time.Millisecond):
				return json.RawMessage(`1`), nil
			case <-ctx.Done():
				return nil, fmt.Errorf("noticed: %w", context.Cause(ctx))
			}
		})
		running := make(chan error, 1)
		go func() { running <- w.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-running; err != nil {
				t.Error(err)
			}
		}()
	}
	for i := range jobs {
		if _, err := c.Enqueue(ctx, client.NewJob{ID: fmt.Sprintf("j%d", i), Type: "t"}); err != nil {
			t.Fatal(err)
		}
		if i == jobs/2 {
			check(t, cluster.KillLeader())
		}
	}
	check(t, l.wait(ctx))
	for job, err := range c.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}}) {
		check(t, err)
		if job.Status != v1.StatusCompleted || job.Attempts != 1 {
			t.Errorf("%s is %s after %d attempts: %s", job.ID, job.Status, job.Attempts, job.LastError)
		}
		if job.Log != "did "+job.ID {
			t.Errorf("%s has the log %q", job.ID, job.Log)
		}
	}
}

// ledger records the workers' reports of n jobs.
type ledger struct {
	mu   sync.Mutex
	left int
	seen map[string]worker.Outcome
	err  error
	done chan struct{}
}

func newLedger(n int) *ledger {
	return &ledger{left: n, seen: map[string]worker.Outcome{}, done: make(chan struct{})}
}

func (l *ledger) finished(f worker.Finished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, twice := l.seen[f.Job.ID]; twice || f.Outcome != worker.Completed {
		l.err = errors.Join(l.err, fmt.Errorf("%s ended as %s: %w", f.Job.ID, f.Outcome, f.Err))
	}
	l.seen[f.Job.ID] = f.Outcome
	if l.left--; l.left == 0 {
		close(l.done)
	}
}

func (l *ledger) wait(ctx context.Context) error {
	select {
	case <-l.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// The longest delay that a worker sends is the longest that the server accepts; it would refuse
// a longer one, and with it the whole report.
func TestDelaysAreThoseOfTheServer(t *testing.T) {
	later := func(context.Context, worker.Job) (json.RawMessage, error) {
		return nil, worker.RetryAfter(math.MaxInt64, errors.New("x"))
	}
	got := worker.Try(t.Context(), later, client.ClaimedJob{}).Failure
	if limit := core.DefaultLimits().Delay; got.Delay > limit || got.Delay < time.Hour || got.AtOnce {
		t.Errorf("the delay is %v, the server accepts %v", got.Delay, limit)
	}
}
