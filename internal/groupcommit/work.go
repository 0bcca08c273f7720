package groupcommit

import (
	"time"

	"osqueue/internal/sleep"
)

// work takes one batch after the other through its commit until the batcher is
// closed and the buffer empty.
func (b *Batcher[T, R]) work() {
	defer b.workerEnded()
	var ba batch[T, R]
	for b.start(&ba) {
		results, err := ba.wait()
		b.batchEnded()
		ba.deliver(results, err, b.recycle)
		ba.reset()
	}
}

// start waits for the turn and for items, and starts a batch of them. It
// reports false when there will be no more.
func (b *Batcher[T, R]) start(ba *batch[T, R]) bool {
	<-b.turn
	defer func() { b.turn <- struct{}{} }()
	for b.awaitItems() {
		b.awaitInterval()
		// The callers may have withdrawn all items during the interval.
		if b.cut(ba) {
			b.lastStart = time.Now()
			ba.wait = b.cfg.Start(b.ctx, ba.items)
			return true
		}
	}
	return false
}

// awaitItems blocks until the buffer holds something, and reports false when
// it is empty for good.
func (b *Batcher[T, R]) awaitItems() bool {
	for {
		b.mu.Lock()
		items, _ := b.pendingLocked()
		closed := b.closed
		b.mu.Unlock()
		if items > 0 || closed {
			return items > 0
		}
		<-b.wake
	}
}

// awaitInterval blocks until the next batch may start, or the batcher is
// closed.
func (b *Batcher[T, R]) awaitInterval() {
	if b.cfg.Interval == 0 || b.lastStart.IsZero() {
		return
	}
	if rest := b.cfg.Interval - time.Since(b.lastStart); rest > 0 {
		sleep.For(b.ctx, rest)
	}
}

// othersFirst is the number of batches of which one begins with items that are not
// urgent, so that urgent items alone cannot keep the others out.
const othersFirst = 4

// cut fills the batch from the buffer and reports whether there was anything.
func (b *Batcher[T, R]) cut(ba *batch[T, R]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	order := [ranks]rank{first, urgent, ordinary}
	if b.cuts++; b.cuts%othersFirst == 0 {
		order = [ranks]rank{first, ordinary, urgent}
	}
	for _, r := range order {
		ba.cut(&b.cfg, &b.bufs[r])
	}
	if len(ba.items) == 0 {
		return false
	}
	b.stats.InFlight++
	b.stats.Batches++
	b.stats.Items += uint64(len(ba.items))
	return true
}

func (b *Batcher[T, R]) batchEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.InFlight--
}

func (b *Batcher[T, R]) workerEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	if b.running == 0 {
		close(b.idle)
	}
}
