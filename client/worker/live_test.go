package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/tests/live"
)

// Two workers on a real cluster whose leader is killed: each job is completed
// once, and no handler notices.
func TestLeaderIsKilledUnderWorkers(t *testing.T) {
	cluster, err := live.Start(3)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Close()
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	const jobs = 80
	l := newLedger(jobs)
	for i := range 2 {
		w, err := worker.New(c, worker.Config{
			Name: fmt.Sprintf("w%d", i), Concurrency: 8, Lease: 2 * time.Second, PollWait: time.Second, Finished: l.finished,
		})
		if err != nil {
			t.Fatal(err)
		}
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
		stop := running(ctx, w)
		defer stop()
	}
	for i := range jobs {
		if _, err := c.Enqueue(ctx, client.NewJob{ID: fmt.Sprintf("j%d", i), Type: "t"}); err != nil {
			t.Fatal(err)
		}
		if i == jobs/2 {
			if err := cluster.KillLeader(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.wait(ctx); err != nil {
		t.Fatal(err)
	}
	for job, err := range c.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}}) {
		if err != nil {
			t.Fatal(err)
		}
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
