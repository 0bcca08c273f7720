package store

// Held is a write that is late: its request has come in whole and
// waits until Release, also when its client has given up by then.
type Held struct {
	target           Target
	arrived, release chan struct{}
	refused          chan bool
}

func newHeld(target Target) *Held {
	return &Held{target: target, arrived: make(chan struct{}), release: make(chan struct{}), refused: make(chan bool, 1)}
}

// Arrived is closed when the write has come in.
func (h *Held) Arrived() <-chan struct{} { return h.arrived }

// Release sends the write to the store, once, after it has arrived, and reports
// whether its condition refused it.
func (h *Held) Release() (refused bool) {
	close(h.release)
	return <-h.refused
}
