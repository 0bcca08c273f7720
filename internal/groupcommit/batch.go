package groupcommit

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

// deliver answers every caller that still waits and recycles the waiters of
// those that do not.
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
