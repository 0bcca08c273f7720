package flush

import (
	"context"
	"errors"
	"sync"
	"time"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

// gate is the connection of a node, or of all nodes of a cluster, to the bucket. A test can
// close it for good, which looks like a crash to the bucket, or for a while.
type gate struct {
	storage.Bucket
	died chan struct{} // closed when the gate is shut for good

	mu   sync.Mutex
	seen int           // operations so far
	left int           // operations until it is shut; negative: no limit
	half bool          // the last of them still reaches the store
	wait chan struct{} // closed when operations may continue; nil: they may
}

var errDead = errors.New("the node is dead")

func newGate(b storage.Bucket) *gate {
	g := &gate{died: make(chan struct{}), left: -1}
	g.Bucket = storagetest.Passing(b, g.pass)
	return g
}

// dieAfter shuts the gate after n operations; half lets the last one reach the store, but
// drops its answer.
func (g *gate) dieAfter(n int, half bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.half = n, half
}

// ops returns the number of operations that have begun.
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

// pause blocks operations until resume.
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

// enter lets an operation through. last reports that its answer must be dropped.
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

// end blocks an operation of a dead process until ctx ends.
func (g *gate) end(ctx context.Context) error {
	<-ctx.Done()
	return errDead
}

// patience is the maximum duration of an operation; the drivers have such a limit, too.
const patience = 30 * time.Second

// pass runs an operation if its node is alive.
func (g *gate) pass(ctx context.Context, op func(context.Context)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last, err := g.enter(ctx)
	if err != nil {
		return err
	}
	op(ctx)
	if last {
		return g.end(ctx)
	}
	return nil
}
