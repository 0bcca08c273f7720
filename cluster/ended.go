package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"osqueue/fsm"
)

// endHub lets callers wait until a job has ended. If no caller waits, an applied entry
// costs one atomic load; otherwise it costs a map lookup for each job that it ended.
type endHub struct {
	waiting atomic.Int64 // lets the write path skip the lock when no caller waits

	mu   sync.Mutex
	byID map[string]*endWait
}

// endWait is shared by all callers that wait for one job.
type endWait struct {
	ended chan struct{} // closed when the job has ended
	n     int
}

func newEndHub() *endHub { return &endHub{byID: make(map[string]*endWait)} }

// WaitEnded returns nil once the job has ended (completed, dead or cancelled), or if the
// state that this node has applied does not contain it. Any node can answer. The errors
// are those of ctx, and ErrClosed.
func (n *Node) WaitEnded(ctx context.Context, id string) error {
	ended, forget := n.ends.wait(id)
	defer forget()
	if j := n.Job(id); j == nil || isEnd(j.Status) {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return ErrClosed
	}
}

func isEnd(s fsm.Status) bool {
	return s == fsm.Completed || s == fsm.Dead || s == fsm.Cancelled
}

// wait returns a channel that is closed when the job ends. The caller must call forget
// when it no longer waits.
func (h *endHub) wait(id string) (ended <-chan struct{}, forget func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting.Add(1)
	w := h.byID[id]
	if w == nil {
		w = &endWait{ended: make(chan struct{})}
		h.byID[id] = w
	}
	w.n++
	return w.ended, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting.Add(-1)
		if w.n--; w.n == 0 && h.byID[id] == w {
			delete(h.byID, id)
		}
	}
}

// changed wakes the callers that wait for jobs that an entry has ended. It runs under the
// replica's lock.
func (h *endHub) changed(events []fsm.Event) {
	if h.waiting.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		e := &events[i]
		if e.Job != nil && (e.Removed || isEnd(e.Job.Status)) {
			h.endedLocked(e.Job.ID)
		}
	}
}

// restored checks all jobs that callers wait for against a state that replaced the old
// one: there are no events for the changes in between.
func (h *endHub) restored(m *fsm.Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.byID {
		if j := m.Job(id); j == nil || isEnd(j.Status) {
			h.endedLocked(id)
		}
	}
}

func (h *endHub) endedLocked(id string) {
	if w := h.byID[id]; w != nil {
		close(w.ended)
		delete(h.byID, id)
	}
}
