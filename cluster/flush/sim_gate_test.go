package flush

import (
	"context"
	"errors"
	"sync"
	"time"

	"osqueue/storage"
)

// gate is the way of a node, or of all nodes of a cluster, to the bucket. It can be
// shut for good, which is what a crash is to the bucket, or for a while.
type gate struct {
	storage.Bucket
	died chan struct{} // closed when it is shut for good

	mu   sync.Mutex
	seen int           // operations so far
	left int           // operations until it is shut; negative: no end
	half bool          // the last of them still reaches the store
	wait chan struct{} // closed when operations may go on; nil: they may
}

var errDead = errors.New("the node is dead")

func newGate(b storage.Bucket) *gate { return &gate{Bucket: b, died: make(chan struct{}), left: -1} }

// dieAfter shuts it after so many operations; half lets the last one through, but
// not its answer.
func (g *gate) dieAfter(n int, half bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.half = n, half
}

// ops is how many operations have begun.
func (g *gate) ops() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killLocked()
}

func (g *gate) killLocked() {
	if !g.deadLocked() {
		close(g.died)
	}
}

func (g *gate) dead() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deadLocked()
}

func (g *gate) deadLocked() bool {
	select {
	case <-g.died:
		return true
	default:
		return false
	}
}

// pause holds operations up until resume.
func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wait == nil {
		g.wait = make(chan struct{})
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wait != nil {
		close(g.wait)
		g.wait = nil
	}
}

// enter lets an operation through. last says that its answer must not come back.
func (g *gate) enter(ctx context.Context) (last bool, err error) {
	g.mu.Lock()
	wait := g.wait
	g.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-g.died:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	g.mu.Lock()
	if g.left == 0 && !g.deadLocked() {
		g.killLocked()
		last = g.half
	}
	g.left--
	g.seen++
	dead := g.deadLocked()
	g.mu.Unlock()
	if dead && !last {
		return false, g.end(ctx)
	}
	return last, nil
}

// end is what a dead process does: nothing, until somebody cleans up.
func (g *gate) end(ctx context.Context) error {
	<-ctx.Done()
	return errDead
}

// Get implements storage.Bucket.
func (g *gate) Get(ctx context.Context, key string) (o storage.Object, err error) {
	err = g.pass(ctx, func(ctx context.Context) (err error) {
		o, err = g.Bucket.Get(ctx, key)
		return err
	})
	return o, err
}

// PutIfAbsent implements storage.Bucket.
func (g *gate) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return g.write(ctx, func(ctx context.Context) storage.Write { return g.Bucket.PutIfAbsent(ctx, key, data) })
}

// PutIfMatch implements storage.Bucket.
func (g *gate) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return g.write(ctx, func(ctx context.Context) storage.Write { return g.Bucket.PutIfMatch(ctx, key, data, v) })
}

func (g *gate) write(ctx context.Context, put func(context.Context) storage.Write) (w storage.Write) {
	err := g.pass(ctx, func(ctx context.Context) error {
		w = put(ctx)
		return nil
	})
	if err != nil {
		return storage.Write{Err: err}
	}
	return w
}

// List implements storage.Bucket.
func (g *gate) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	return g.pass(ctx, func(ctx context.Context) error { return g.Bucket.List(ctx, prefix, fn) })
}

// Delete implements storage.Bucket.
func (g *gate) Delete(ctx context.Context, key string) error {
	return g.pass(ctx, func(ctx context.Context) error { return g.Bucket.Delete(ctx, key) })
}

// patience is how long an operation may take: the drivers give up, too.
const patience = 30 * time.Second

// pass does an operation, if its node lives.
func (g *gate) pass(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last, err := g.enter(ctx)
	if err != nil {
		return err
	}
	err = do(ctx)
	if last {
		return g.end(ctx)
	}
	return err
}
