package groupcommit

import (
	"context"
	"fmt"
)

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
