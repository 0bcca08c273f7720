package groupcommit

import "runtime"

// work takes one batch after the other through its commit until the batcher is
// closed and the buffer empty.
func (b *Batcher[T, R]) work() {
	defer b.workerEnded()
	var ba batch[T, R]
	for b.start(&ba) {
		results, err := ba.wait()
		ba.deliver(results, err, b.recycle)
		ba.reset()
	}
}

// fewItems is the number of items below which a batch gives other callers the processor once before it starts.
const fewItems = 8

// start waits for the turn and for items, and starts a batch of them. It
// reports false when there will be no more.
func (b *Batcher[T, R]) start(ba *batch[T, R]) bool {
	<-b.turn
	defer func() { b.turn <- struct{}{} }()
	for b.awaitItems() {
		if items, _ := b.Pending(); items < fewItems {
			runtime.Gosched() // callers that can run add their items
		}
		if b.cut(ba) { // or the callers have withdrawn all items
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
	return len(ba.items) > 0
}

func (b *Batcher[T, R]) workerEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	if b.running == 0 {
		close(b.idle)
	}
}

// batch carries the items of one commit. One goroutine owns it and reuses it: after the
// first rounds a commit allocates no memory of its own.
type batch[T, R any] struct {
	waiters []*waiter[T, R]
	items   []T
	bytes   int
	wait    Wait[R]
}

// cut moves as many waiters from the head of a buffer as the batch still has room for.
func (ba *batch[T, R]) cut(cfg *Config[T, R], buf *buffer[T, R]) {
	for w := buf.first; w != nil; w = buf.first {
		if len(ba.items) > 0 && cfg.batchIsFull(len(ba.items), ba.bytes, w.size) {
			return
		}
		ba.bytes += w.size
		buf.remove(w)
		ba.waiters = append(ba.waiters, w)
		ba.items = append(ba.items, w.item)
	}
}

// deliver answers every caller that still waits. It recycles the waiters of the callers that
// have given up.
func (ba *batch[T, R]) deliver(results []R, err error, recycle func(*waiter[T, R])) {
	if err == nil && results != nil && len(results) != len(ba.items) {
		err = miscounted(len(results), len(ba.items))
	}
	for i, w := range ba.waiters {
		var result R
		if err == nil && results != nil {
			result = results[i]
		}
		if !w.settle(result, err) {
			recycle(w)
		}
	}
}

// reset drops every reference and keeps the memory.
func (ba *batch[T, R]) reset() {
	clear(ba.waiters)
	clear(ba.items)
	ba.waiters, ba.items, ba.bytes, ba.wait = ba.waiters[:0], ba.items[:0], 0, nil
}
