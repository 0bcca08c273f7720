package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// simGate is the way of one life of a node to the bucket: it takes time, it can be cut,
// and it ends with the node. A write whose node is killed may have landed or not.
type simGate struct {
	storage.Bucket
	dead <-chan struct{}

	mu       sync.Mutex
	r        *rand.Rand
	cut      chan struct{} // closed when the way is free again; nil: it is
	withheld int
	deaf     bool    // operations do not end with their context while cut is set
	seen     fsm.LSN // of the document when it was last read
}

var errSimGone = errors.New("the node is gone")

// simPatience is how long an operation may take: the drivers give up, too.
const simPatience = 30 * time.Second

func newSimGate(b storage.Bucket, dead <-chan struct{}, r *rand.Rand) *simGate {
	return &simGate{Bucket: b, dead: dead, r: rand.New(rand.NewPCG(r.Uint64(), 0))}
}

// block cuts the way to the bucket until the returned function is called, which says
// how many operations were held up.
func (g *simGate) block() (unblock func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blockLocked(false)
}

// hang is block for a bucket on a file system that hangs: operations do not end with
// their context.
func (g *simGate) hang() (unblock func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blockLocked(true)
}

func (g *simGate) blockLocked(deaf bool) (unblock func() int) {
	free := make(chan struct{})
	g.cut, g.withheld, g.deaf = free, 0, deaf
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

// way is one way to the bucket or back.
func (g *simGate) way(ctx context.Context) error {
	g.mu.Lock()
	cut := g.cut
	delay := 2*time.Millisecond + time.Duration(g.r.Int64N(int64(8*time.Millisecond)))
	done := ctx.Done()
	if cut != nil {
		g.withheld++
		if g.deaf {
			done = nil
		}
	}
	g.mu.Unlock()
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

// do does an operation between two ways.
func (g *simGate) do(ctx context.Context, op func(context.Context)) error {
	ctx, cancel := context.WithTimeout(ctx, simPatience)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // a dead node waits for nobody
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
	if lost := g.do(ctx, func(ctx context.Context) { o, err = g.Bucket.Get(ctx, key) }); lost != nil {
		return storage.Object{}, lost
	}
	if err == nil && key == DocumentKey {
		g.note(o.Data)
	}
	return o, err
}

func (g *simGate) note(data []byte) {
	d, err := queuefile.Decode(data)
	if err != nil || d.Header == nil {
		return // garbled on the way
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = d.Header.LSN()
}

// lastSeen is at which LSN the document was when this node last read it.
func (g *simGate) lastSeen() fsm.LSN {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// PutIfAbsent implements storage.Bucket.
func (g *simGate) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return g.write(ctx, func(ctx context.Context) storage.Write { return g.Bucket.PutIfAbsent(ctx, key, data) })
}

// PutIfMatch implements storage.Bucket.
func (g *simGate) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return g.write(ctx, func(ctx context.Context) storage.Write { return g.Bucket.PutIfMatch(ctx, key, data, v) })
}

func (g *simGate) write(ctx context.Context, put func(context.Context) storage.Write) (w storage.Write) {
	if lost := g.do(ctx, func(ctx context.Context) { w = put(ctx) }); lost != nil {
		return storage.Write{Err: lost}
	}
	return w
}

// List implements storage.Bucket.
func (g *simGate) List(ctx context.Context, prefix string, fn func(storage.Info) bool) (err error) {
	if lost := g.do(ctx, func(ctx context.Context) { err = g.Bucket.List(ctx, prefix, fn) }); lost != nil {
		return lost
	}
	return err
}

// Delete implements storage.Bucket.
func (g *simGate) Delete(ctx context.Context, key string) (err error) {
	if lost := g.do(ctx, func(ctx context.Context) { err = g.Bucket.Delete(ctx, key) }); lost != nil {
		return lost
	}
	return err
}
