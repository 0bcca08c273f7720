package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"osqueue/fsm"
	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/document"
)

// simGate is the connection of one process of a node to the bucket. It adds latency, can
// be cut, and ends with the process. If the node is killed during a write, the write may
// or may not take effect.
type simGate struct {
	storage.Bucket
	inner storage.Bucket
	dead  <-chan struct{}

	mu       sync.Mutex
	r        *rand.Rand
	cut      chan struct{} // closed when the connection is restored; nil: it is not cut
	withheld int
	deaf     bool    // operations do not end with their context while cut is set
	refusing bool    // operations fail at once while cut is set
	seen     fsm.LSN // LSN of the document when it was last read

	// repeat may let a write that was sent arrive once more. It is set before the gate is used.
	repeat func(put func(context.Context) storage.Write)
}

var errSimGone = errors.New("the node is gone")

// simPatience is how long an operation may take. The storage drivers give up after a
// while, too.
const simPatience = 30 * time.Second

func newSimGate(b storage.Bucket, dead <-chan struct{}, r *rand.Rand) *simGate {
	g := &simGate{inner: b, dead: dead, r: rand.New(rand.NewPCG(r.Uint64(), 0)), repeat: func(func(context.Context) storage.Write) {}}
	g.Bucket = storagetest.Passing(b, g.do)
	return g
}

// block cuts the connection to the bucket until unblock is called, which returns how many
// operations were delayed.
func (g *simGate) block() (unblock func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blockLocked(false)
}

// refuse is block for a bucket that refuses each operation of this node at once.
func (g *simGate) refuse() (unblock func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	unblock = g.blockLocked(false)
	g.refusing = true
	return unblock
}

// errSimRefused is the answer of a bucket that refuses a node's credentials.
var errSimRefused = errors.New("the store refused the credentials")

// hang is block for a bucket on a file system that hangs: operations do not end with
// their context.
func (g *simGate) hang() (unblock func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blockLocked(true)
}

func (g *simGate) blockLocked(deaf bool) (unblock func() int) {
	free := make(chan struct{})
	g.cut, g.withheld, g.deaf, g.refusing = free, 0, deaf, false
	return sync.OnceValue(func() int {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.cut == free {
			g.cut = nil
		}
		close(free)
		return g.withheld
	})
}

// way waits for the latency of one direction, and while the connection is cut.
func (g *simGate) way(ctx context.Context) error {
	g.mu.Lock()
	cut, refusing := g.cut, g.refusing
	delay := 2*time.Millisecond + time.Duration(g.r.Int64N(int64(8*time.Millisecond)))
	done := ctx.Done()
	if cut != nil {
		g.withheld++
		if g.deaf {
			done = nil
		}
	}
	g.mu.Unlock()
	if cut != nil && refusing {
		return errSimRefused
	}
	if cut != nil {
		select {
		case <-cut:
		case <-g.dead:
			return errSimGone
		case <-done:
			return ctx.Err()
		}
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-g.dead:
		return errSimGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do performs an operation after one way and before another.
func (g *simGate) do(ctx context.Context, op func(context.Context)) error {
	ctx, cancel := context.WithTimeout(ctx, simPatience)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // the operation of a dead node ends on its own
		select {
		case <-g.dead:
			cancel()
		case <-stop:
		}
	}()
	if err := g.way(ctx); err != nil {
		return err
	}
	op(ctx)
	return g.way(ctx)
}

// Get implements storage.Bucket.
func (g *simGate) Get(ctx context.Context, key string) (o storage.Object, err error) {
	o, err = g.Bucket.Get(ctx, key)
	if err == nil && key == DocumentKey {
		g.note(o.Data)
	}
	return o, err
}

func (g *simGate) note(data []byte) {
	d, err := document.Decode(data)
	if err != nil || d.Header == nil {
		return // the answer is garbled
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = d.Header.LSN()
}

// lastSeen returns the LSN of the document when this node last read it.
func (g *simGate) lastSeen() fsm.LSN {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// PutIfAbsent implements storage.Bucket.
func (g *simGate) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	g.repeat(func(ctx context.Context) storage.Write { return g.inner.PutIfAbsent(ctx, key, data) })
	return g.Bucket.PutIfAbsent(ctx, key, data)
}

// PutIfMatch implements storage.Bucket.
func (g *simGate) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	g.repeat(func(ctx context.Context) storage.Write { return g.inner.PutIfMatch(ctx, key, data, v) })
	return g.Bucket.PutIfMatch(ctx, key, data, v)
}
