package groupcommit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"osqueue/internal/sleep"
)

// Batcher commits items in batches. Make one with New.
type Batcher[T, R any] struct {
	cfg  Config[T, R]
	pool sync.Pool // of *waiter[T, R]

	// turn holds one token. The goroutine that has it may cut and start a batch.
	turn chan struct{}

	// wake has room for one signal to the goroutine that has the turn: the
	// buffer is no longer empty, or the batcher no longer open.
	wake chan struct{}

	// ctx is the effects' context, ended by Close.
	ctx    context.Context
	cancel context.CancelFunc
	idle   chan struct{} // closed when the last goroutine has ended

	mu      sync.Mutex
	bufs    [ranks]buffer[T, R]
	cuts    uint64 // batches that were cut
	closed  bool
	running int // goroutines
}

// New starts a batcher. It panics when the configuration has no Start or a
// negative bound.
func New[T, R any](cfg Config[T, R]) *Batcher[T, R] {
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	b := &Batcher[T, R]{
		cfg:     cfg,
		turn:    make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		ctx:     ctx,
		cancel:  cancel,
		idle:    make(chan struct{}),
		running: cfg.MaxInFlight,
	}
	b.pool.New = func() any { return &waiter[T, R]{done: make(chan struct{}, 1)} }
	b.turn <- struct{}{}
	for range cfg.MaxInFlight {
		go b.work()
	}
	return b
}

// Do commits one item and returns its result. It waits until the item's batch is decided
// or ctx ends. The package comment defines its errors; errors that come from ctx also
// match ctx.Err().
func (b *Batcher[T, R]) Do(ctx context.Context, item T) (R, error) { return b.DoWithin(ctx, item, 0) }

// DoWithin is Do with a limit on the wait, after which the call ends as if ctx had ended with
// context.DeadlineExceeded; 0 is no limit. It allocates nothing, which a context with a
// deadline of its own does.
func (b *Batcher[T, R]) DoWithin(ctx context.Context, item T, limit time.Duration) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, withdrawn(err)
	}
	w := b.pool.Get().(*waiter[T, R])
	w.item, w.size, w.rank = item, b.cfg.Size(item), b.cfg.rank(item)
	if err := b.admit(w); err != nil {
		b.recycle(w)
		return none, err
	}
	select {
	case <-w.done:
		return b.collect(w)
	case <-ctx.Done():
		return b.giveUp(w, ctx.Err())
	case <-w.limited(limit):
		return b.giveUp(w, context.DeadlineExceeded)
	}
}

// Pending returns the number and size of the items that are admitted and not started.
func (b *Batcher[T, R]) Pending() (items, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pendingLocked()
}

func (b *Batcher[T, R]) pendingLocked() (items, bytes int) {
	for i := range b.bufs {
		items, bytes = items+b.bufs[i].items, bytes+b.bufs[i].bytes
	}
	return items, bytes
}

// bufferOf returns the buffer of a waiter.
func (b *Batcher[T, R]) bufferOf(w *waiter[T, R]) *buffer[T, R] { return &b.bufs[w.rank] }

// admit puts a waiter into the buffer, or returns the reason why it cannot.
func (b *Batcher[T, R]) admit(w *waiter[T, R]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	buf := b.bufferOf(w)
	if w.rank != first && b.cfg.bufferIsFull(buf.items, buf.bytes, w.size) {
		return ErrOverloaded
	}
	buf.push(w)
	if items, _ := b.pendingLocked(); items == 1 {
		b.signal()
	}
	return nil
}

// signal wakes the goroutine that has the turn, or keeps it from falling asleep.
func (b *Batcher[T, R]) signal() { sleep.Wake(b.wake) }

// collect takes the answer out of a waiter that has one.
func (b *Batcher[T, R]) collect(w *waiter[T, R]) (R, error) {
	result, err := w.result, w.err
	b.recycle(w)
	return result, err
}

// giveUp ends a call whose context has ended. If the answer came first, giveUp returns
// the answer.
func (b *Batcher[T, R]) giveUp(w *waiter[T, R], cause error) (R, error) {
	var none R
	if b.withdraw(w) {
		b.recycle(w)
		return none, withdrawn(cause)
	}
	if w.settled.CompareAndSwap(false, true) {
		return none, abandoned(cause)
	}
	<-w.done
	return b.collect(w)
}

// withdraw takes a waiter out of the buffer if it is still there.
func (b *Batcher[T, R]) withdraw(w *waiter[T, R]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.buffered {
		return false
	}
	b.bufferOf(w).remove(w)
	return true
}

func (b *Batcher[T, R]) recycle(w *waiter[T, R]) {
	w.reset()
	b.pool.Put(w)
}

// Close stops the batcher now. New and buffered items get ErrClosed; the
// context of the effects ends, and Close waits for those in flight to return
// whatever they then return, and for the goroutines. It may be called more
// than once, but not from inside the effect.
func (b *Batcher[T, R]) Close() {
	b.refuse()
	b.dropBuffered()
	b.cancel()
	<-b.idle
}

// Drain stops the batcher in good order: new items get ErrClosed, buffered ones
// are committed first. When ctx ends before that is done, the rest is dropped
// as by Close and the error says so. The goroutines have ended when it returns.
func (b *Batcher[T, R]) Drain(ctx context.Context) error {
	b.refuse()
	defer b.Close()
	select {
	case <-b.idle:
		return nil
	case <-ctx.Done():
		items, _ := b.Pending()
		return fmt.Errorf("groupcommit: drain ended with %d items not started: %w", items, ctx.Err())
	}
}

// refuse stops the admission of items. The goroutines end when the buffer is empty.
func (b *Batcher[T, R]) refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.signal()
}

// dropBuffered answers all buffered items with ErrClosed. It does so under the
// lock: between leaving the buffer and being answered, a caller whose context
// ends would take its item for started.
func (b *Batcher[T, R]) dropBuffered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	var none R
	for i := range b.bufs {
		buf := &b.bufs[i]
		for w := buf.first; w != nil; w = buf.first {
			buf.remove(w)
			w.settle(none, ErrClosed)
		}
	}
}
