package store

import "sync"

// busy counts requests under way. Unlike a WaitGroup it may grow while a goroutine
// waits.
type busy struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is 0 again; nil while no goroutine waits
}

func (b *busy) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
}

func (b *busy) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// wait returns when nothing is under way.
func (b *busy) wait() {
	b.mu.Lock()
	if b.n == 0 {
		b.mu.Unlock()
		return
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	<-idle
}
