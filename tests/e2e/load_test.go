package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	"osqueue/client"
)

// load enqueues jobs of the type of the compose file's workers, one after the other, until it
// is stopped.
type load struct {
	b      *boxed
	cancel context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	ids []string // of the acknowledged jobs
	err error    // the first refusal; it ended the load
}

// loadPause is the pause between two jobs, because the acknowledged jobs must also be executed.
const loadPause = 20 * time.Millisecond

// produce starts a load that ends with the test at the latest.
func (b *boxed) produce() *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{b: b, cancel: cancel, done: make(chan struct{})}
	go l.run(ctx)
	b.t.Cleanup(func() { cancel(); <-l.done })
	return l
}

func (l *load) run(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		// The call is not cut off at the end, because it would be unknown whether its job was
		// accepted.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		e, err := l.b.client.Enqueue(call, client.NewJob{Type: "version"})
		cancel()
		l.mu.Lock()
		if err == nil {
			l.ids = append(l.ids, e.JobID)
		}
		l.err = err
		l.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(loadPause):
		}
	}
}

func (l *load) state() ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids, l.err
}

func (l *load) acked() int {
	ids, _ := l.state()
	return len(ids)
}

// reach waits until n jobs have been acknowledged.
func (l *load) reach(n int) {
	l.b.t.Helper()
	l.b.eventually(fmt.Sprintf("%d acknowledged jobs", n), func(context.Context) error {
		ids, err := l.state()
		if err != nil {
			l.b.t.Fatalf("a job was refused: %v", err)
		}
		if len(ids) < n {
			return fmt.Errorf("%d so far", len(ids))
		}
		return nil
	})
}

// stop ends the load and returns the ids of the acknowledged jobs.
func (l *load) stop() []string {
	l.b.t.Helper()
	l.cancel()
	<-l.done
	ids, err := l.state()
	if err != nil {
		l.b.t.Fatalf("a job was refused: %v", err)
	}
	return ids
}
