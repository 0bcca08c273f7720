package flush

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/election"
	"osqueue/fsm"
)

// Document is the fenced document that the flusher writes. *election.Fence is
// one. It is used by one goroutine at a time.
type Document interface {
	// Write makes v the content of the document, by compare-and-swap. See
	// election.Fence for its errors.
	Write(ctx context.Context, v *fsm.View, nowMs int64) error
	// Flushed is the newest LSN known to be in the document.
	Flushed() fsm.LSN
	// Size is the number of bytes of the last document written.
	Size() int
}

// Effects are what the flusher needs from its node.
type Effects struct {
	View  func() *fsm.View // the state to write
	LSN   func() fsm.LSN   // of the state, cheaper than View
	NowMs func() int64     // the leader's clock
	// Adopt takes over what somebody else wrote into our document: it keeps a
	// copy and proposes what is new. The fence is rebased when it returns nil.
	Adopt func(ctx context.Context, edit *election.ExternalEditError) error
}

// Flusher is the loop. One goroutine calls Run; Changed and the readers of
// state are safe from any.
type Flusher struct {
	cfg Config
	doc Document
	fx  Effects
	log hclog.Logger

	poke     chan struct{}
	flushed  atomic.Pointer[fsm.LSN]
	failing  atomic.Pointer[string]
	dirtyAt  atomic.Int64 // when the oldest change was made that no write has taken up, ms; 0: none
	writing  atomic.Int64 // the same of the changes in the write under way
	failures int          // in a row
}

// New makes a flusher for a document that has just been acquired.
func New(cfg Config, doc Document, fx Effects, log hclog.Logger) *Flusher {
	f := &Flusher{cfg: cfg, doc: doc, fx: fx, log: log, poke: make(chan struct{}, 1)}
	f.noteFlushed()
	return f
}

// Changed says that the state changed at nowMs. It never blocks.
func (f *Flusher) Changed(nowMs int64) {
	f.dirtyAt.CompareAndSwap(0, nowMs)
	f.wake()
}

// DirtyAt is when the oldest change was made that the bucket does not have, in
// ms of the leader's clock; 0 when it has all.
func (f *Flusher) DirtyAt() int64 {
	if at := f.writing.Load(); at != 0 {
		return at
	}
	return f.dirtyAt.Load()
}

func (f *Flusher) wake() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// Flushed is the newest LSN known to be in the bucket.
func (f *Flusher) Flushed() fsm.LSN { return *f.flushed.Load() }

// Failing says why the last write did not succeed; "" when it did.
func (f *Flusher) Failing() string {
	if s := f.failing.Load(); s != nil {
		return *s
	}
	return ""
}

// Run writes until ctx ends, which returns nil, or until the node is fenced,
// which returns the *election.FencedError.
func (f *Flusher) Run(ctx context.Context) error {
	last := time.Now()
	next := time.NewTimer(f.cfg.Heartbeat)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		case <-f.poke:
			if !f.dirty() {
				continue
			}
			if !sleep(ctx, f.pause()-time.Since(last)) {
				return nil
			}
		}
		last = time.Now()
		if err := f.flush(ctx); err != nil {
			return err
		}
		next.Reset(f.cfg.Heartbeat)
		if f.Failing() != "" {
			last = time.Now() // a store in trouble gets its rest after the attempt
			f.wake()          // and is tried again without waiting for a change
		}
	}
}

// pause is how long after the start of the last write, or the end of a failed
// one, the next may start.
func (f *Flusher) pause() time.Duration {
	if f.failures > 0 {
		return min(time.Duration(f.failures)*f.cfg.ConflictBackoff, f.cfg.Heartbeat)
	}
	return f.cfg.pause(f.doc.Size())
}

// Final writes what is not yet in the bucket, once, after Run has returned.
func (f *Flusher) Final(ctx context.Context) error {
	if !f.dirty() {
		return nil
	}
	return f.write(ctx)
}

func (f *Flusher) dirty() bool {
	return f.Failing() != "" || f.fx.LSN().Compare(f.doc.Flushed()) > 0
}

// flush writes once. It returns an error only when the node is fenced; other
// trouble is noted and logged at its beginning and end.
func (f *Flusher) flush(ctx context.Context) error {
	err := f.write(ctx)
	var fenced *election.FencedError
	if errors.As(err, &fenced) {
		return err
	}
	if ctx.Err() == nil { // at the end of a reign errors mean nothing
		f.note(err)
	}
	return nil
}

func (f *Flusher) note(err error) {
	before := f.Failing()
	if err == nil {
		if before != "" {
			f.log.Info("the bucket takes writes again", "flushed", f.doc.Flushed())
		}
		f.failing.Store(nil)
		f.failures = 0
		return
	}
	f.failures++
	reason := err.Error()
	f.failing.Store(&reason)
	if before == "" {
		f.log.Warn("the state cannot be written to the bucket; the cluster goes on without it", "error", err)
	}
}

// write is one attempt to bring the bucket up to date, edits by others
// adopted.
func (f *Flusher) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.WriteTimeout)
	defer cancel()
	f.writing.Store(f.dirtyAt.Load()) // first: a reader must find it in one of the two
	dirtyAt := f.dirtyAt.Swap(0)
	f.writing.Store(dirtyAt)
	defer f.writing.Store(0)
	for attempt := 1; ; attempt++ {
		err := f.doc.Write(ctx, f.fx.View(), f.fx.NowMs())
		if err == nil {
			f.noteFlushed()
			return nil
		}
		if dirtyAt != 0 {
			f.dirtyAt.Store(dirtyAt)
		}
		var edit *election.ExternalEditError
		if !errors.As(err, &edit) {
			return err
		}
		if attempt > f.cfg.ConflictRetries {
			return fmt.Errorf("the document is changed by somebody else again and again: %w", err)
		}
		if err := f.fx.Adopt(ctx, edit); err != nil {
			return fmt.Errorf("adopt an edit of the document: %w", err)
		}
		if !sleep(ctx, time.Duration(attempt)*f.cfg.ConflictBackoff) {
			return ctx.Err()
		}
	}
}

func (f *Flusher) noteFlushed() {
	lsn := f.doc.Flushed()
	f.flushed.Store(&lsn)
}

// sleep waits for d, if it is positive, and reports whether ctx lives.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
