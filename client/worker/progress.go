package worker

import (
	"context"
	"sync"

	"osqueue/client"
)

// teller carries a handler's progress to the cluster.
type teller struct {
	send func(ctx context.Context, p client.Progress) error

	mu   sync.Mutex
	next *client.Progress // what the next heartbeat takes along; nil: nothing new
}

// Progress tells how far the job has come, in percent, with a message for
// people. It goes with the next heartbeat; of several calls before that, the
// last one counts. It costs next to nothing, so that a loop may call it each
// time. Percent is brought into 0 to 100.
func (j Job) Progress(percent int, message string) {
	if j.teller != nil {
		j.teller.put(progressOf(percent, message))
	}
}

// ProgressNow is Progress that is sent at once. An error is that of the call to
// the cluster; the job goes on all the same, and so may the handler.
func (j Job) ProgressNow(ctx context.Context, percent int, message string) error {
	if j.teller == nil {
		return nil
	}
	j.teller.drop()
	return j.teller.send(ctx, progressOf(percent, message))
}

func progressOf(percent int, message string) client.Progress {
	return client.Progress{Percent: min(max(percent, 0), 100), Message: clipTo(message, maxProgressText)}
}

func (t *teller) put(p client.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = &p
}

// drop forgets what has not been sent: something newer is about to be.
func (t *teller) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = nil
}

// take returns what is to be sent, if anything.
func (t *teller) take() *client.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.next
	t.next = nil
	return p
}

// restore is for what could not be sent. What was put since counts more.
func (t *teller) restore(p *client.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = p
	}
}
