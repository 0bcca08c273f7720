package notify

import (
	"sync"

	"osqueue/fsm"
)

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
