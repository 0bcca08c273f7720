package worker

import (
	"context"
	"sync"

	"osqueue/client"
)

// progressReporter sends a handler's progress to the cluster.
type progressReporter struct {
	send func(ctx context.Context, p client.Progress) error

	mu   sync.Mutex
	next *client.Progress // for the next heartbeat; nil: nothing new
}

// Progress reports how far the job has come, in percent, with a message for people.
// The next heartbeat sends it; of several calls before that, the last one counts.
// It is cheap enough for every pass of a loop. Percent is limited to 0 to 100.
func (j Job) Progress(percent int, message string) {
	if j.reporter != nil {
		j.reporter.put(progressOf(percent, message))
	}
}

// ProgressNow is like Progress, but sends the report at once. An error means only
// that the call failed: the job is not affected, and the handler may continue.
func (j Job) ProgressNow(ctx context.Context, percent int, message string) error {
	if j.reporter == nil {
		return nil
	}
	j.reporter.drop()
	return j.reporter.send(ctx, progressOf(percent, message))
}

func progressOf(percent int, message string) client.Progress {
	return client.Progress{Percent: min(max(percent, 0), 100), Message: clipTo(message, maxProgressText)}
}

func (t *progressReporter) put(p client.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = &p
}

// drop discards unsent progress, because the caller sends a newer one.
func (t *progressReporter) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = nil
}

// take returns the progress to send, or nil.
func (t *progressReporter) take() *client.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.next
	t.next = nil
	return p
}

// restore keeps a progress that could not be sent, unless the handler has reported
// a newer one.
func (t *progressReporter) restore(p *client.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = p
	}
}
