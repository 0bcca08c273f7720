package notify

import (
	"sync"
	"sync/atomic"

	"osqueue/fsm"
)

// Ended lets callers wait until a job has ended. If no caller waits, an applied entry
// costs one atomic load; otherwise it costs a map lookup for each job that it ended. Its
// methods are safe for concurrent use.
type Ended struct {
	waiting atomic.Int64 // lets the write path skip the lock when no caller waits

	mu   sync.Mutex
	byID map[string]*endWait
}

// endWait is shared by all callers that wait for one job.
type endWait struct {
	ended chan struct{} // closed when the job has ended
	n     int
}

// NewEnded returns an Ended for which no caller waits.
func NewEnded() *Ended { return &Ended{byID: make(map[string]*endWait)} }

// IsEnd reports whether a job with this status has ended: it is completed, dead,
// cancelled or expired.
func IsEnd(s fsm.Status) bool {
	return s == fsm.Completed || s == fsm.Dead || s == fsm.Cancelled || s == fsm.Expired
}

// Wait returns a channel that is closed when the job ends. The caller then checks itself
// whether the job has ended before the call, and calls forget when it no longer waits.
func (h *Ended) Wait(id string) (ended <-chan struct{}, forget func()) {
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

// Applied wakes the callers that wait for jobs that the entry that m has applied last has
// ended. The caller holds the lock that guards m.
func (h *Ended) Applied(m *fsm.Machine) {
	if h.waiting.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	events := m.Events()
	for i := range events {
		e := &events[i]
		if e.Job != nil && (e.Removed || IsEnd(e.Job.Status)) {
			h.endedLocked(e.Job.ID)
		}
	}
}

// Restored checks all jobs that callers wait for against a state that replaced the old
// one: there are no events for the changes in between. The caller holds the lock that
// guards m.
func (h *Ended) Restored(m *fsm.Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.byID {
		if j := m.Job(id); j == nil || IsEnd(j.Status) {
			h.endedLocked(id)
		}
	}
}

func (h *Ended) endedLocked(id string) {
	if w := h.byID[id]; w != nil {
		close(w.ended)
		delete(h.byID, id)
	}
}

// Tokens reports the ends of access tokens to those who wait with one.
type Tokens struct {
	seen uint64 // fsm.Machine.TokensEnded; only Applied and Restored use it

	mu    sync.Mutex
	ended chan struct{} // closed and replaced when tokens end
}

// NewTokens returns a Tokens of a new machine.
func NewTokens() *Tokens { return &Tokens{ended: make(chan struct{})} }

// Applied wakes the waiters if the entry that m has applied has ended tokens. Calls must not
// overlap with each other or with those of Restored.
func (t *Tokens) Applied(m *fsm.Machine) {
	if n := m.TokensEnded(); n != t.seen {
		t.seen = n
		t.wake()
	}
}

// Restored wakes the waiters: m has replaced the state, and may lack tokens.
func (t *Tokens) Restored(m *fsm.Machine) {
	t.seen = m.TokensEnded()
	t.wake()
}

func (t *Tokens) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.ended)
	t.ended = make(chan struct{})
}

// Ended returns a channel that is closed at the next end of a token. A caller gets the channel
// first, and then looks which tokens there are.
func (t *Tokens) Ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}
