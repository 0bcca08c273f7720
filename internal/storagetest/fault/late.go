package fault

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"osqueue/internal/sleep"
	"osqueue/storage"
)

// late is a write that has left its caller and has not reached the store.
type late struct {
	owner *Injection
	once  sync.Once
	put   func(context.Context) storage.Write
}

// maxHeld bounds the writes that one rule keeps; what comes on top is lost.
const maxHeld = 1024

// hold keeps a write back until Release, or until the rule's delay is over.
// The bucket owns the goroutine that waits; Close ends it.
func (b *Bucket) hold(i *Injection, data []byte, put func(context.Context, []byte) storage.Write) {
	data = bytes.Clone(data)
	l := &late{owner: i, put: func(ctx context.Context) storage.Write { return put(ctx, data) }}
	i.mu.Lock()
	kept := len(i.held) < maxHeld
	if kept {
		i.held = append(i.held, l)
	}
	i.mu.Unlock()
	if !kept || i.rule.Delay <= 0 {
		return
	}
	b.deliveries.Go(func() {
		if sleep.For(b.closing, i.rule.Delay) {
			l.deliver(b.closing)
		}
	})
}

// deliver sends the write to the store unless that was done before. It reports
// the store's answer, and whether this call has sent it.
func (l *late) deliver(ctx context.Context) (w storage.Write, mine bool) {
	l.once.Do(func() {
		mine = true
		w = l.put(ctx)
		l.owner.mu.Lock()
		defer l.owner.mu.Unlock()
		l.owner.held = slices.DeleteFunc(l.owner.held, func(h *late) bool { return h == l })
		l.owner.late = append(l.owner.late, w)
		l.owner.notifyLocked()
	})
	return w, mine
}
