package flush

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// Document is the fenced document that the flusher writes. *election.Fence is
// one. It is used by one goroutine at a time.
type Document interface {
	// Write makes c the content of the document, by compare-and-swap. See
	// election.Fence for its errors.
	Write(ctx context.Context, c *queuefile.Content, nowMs int64) error
	// Promise makes the following writes promise the next heartbeat; 0: none.
	Promise(next time.Duration)
	// Flushed is the newest LSN known to be in the document.
	Flushed() fsm.LSN
	// Size is the number of bytes of the last document written.
	Size() int
	// Large says that the last document written has no state inline.
	Large() bool
}

// Draft makes contents. *Drafter is one. It is used by one goroutine at a time.
type Draft interface {
	Draft(ctx context.Context, large bool) (c *queuefile.Content, behind bool, err error)
	Last() *queuefile.Content
	// Wrote says that c is in the document. kept is up to where the entries are
	// not needed to continue the archive.
	Wrote(c *queuefile.Content) (kept fsm.LSN)
	// Objects returns how many objects were written since its last call.
	Objects() int
	// Notify has wake called, from any goroutine, when what the next content waited
	// for has come.
	Notify(wake func())
}

// Effects are what the flusher needs from its node.
type Effects struct {
	LSN   func() fsm.LSN // of the state
	NowMs func() int64   // the leader's clock
	// Interval is the least time between two writes; nil takes the
	// configuration's.
	Interval func() time.Duration
	// Idle reports whether Config.IdleHeartbeat counts, as no other cluster waits for the
	// document; nil: never. Rewrite ends it before the next heartbeat is due.
	Idle func() bool
	// Adopt takes over what somebody else wrote into our document: it keeps a
	// copy and proposes what is new. The fence is rebased when it returns nil.
	Adopt func(ctx context.Context, edit *election.ExternalEditError) error
	// Wrote is told of each version of the document.
	Wrote func(w Written)
}

// Written is a version of the document.
type Written struct {
	Content *queuefile.Content
	Large   bool // it has no state inline
	Bytes   int
	Kept    fsm.LSN // nobody needs the entries up to it for the archive
}

// Flusher is the loop. One goroutine calls Run; Changed, WaitFlushed and the
// readers of state are safe from any.
type Flusher struct {
	cfg   Config
	doc   Document
	draft Draft
	fx    Effects
	log   hclog.Logger

	poke     chan struct{}
	forced   atomic.Bool // the next draft is written, also if nothing has changed
	failing  atomic.Pointer[string]
	failures int // in a row
	objects  int // written with the last flush, and since the one before
	wroteAt  time.Time
	final    bool // the next write is the last one
	renewed  atomic.Pointer[heartbeat]

	mu      sync.Mutex
	flushed fsm.LSN
	more    chan struct{} // closed when flushed grows; nil while nobody waits
	over    bool
}

// heartbeat is the last write of the document that succeeded.
type heartbeat struct {
	began time.Time
	next  time.Duration // promised with it; 0: none
}

// New makes a flusher for a document that has just been acquired.
func New(cfg Config, doc Document, draft Draft, fx Effects, log hclog.Logger) *Flusher {
	f := &Flusher{cfg: cfg, doc: doc, draft: draft, fx: fx, log: log, poke: make(chan struct{}, 1), wroteAt: time.Now()}
	f.flushed = doc.Flushed()
	f.renewed.Store(&heartbeat{began: f.wroteAt})
	if f.fx.Interval == nil {
		f.fx.Interval = func() time.Duration { return cfg.Interval }
	}
	draft.Notify(f.Changed)
	return f
}

// Changed says that there is something to write. It never blocks.
func (f *Flusher) Changed() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// Rewrite has the document drafted and written though nothing has changed. It never blocks.
func (f *Flusher) Rewrite() {
	f.forced.Store(true)
	f.Changed()
}

// Flushed is the newest LSN known to be in the bucket.
func (f *Flusher) Flushed() fsm.LSN {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flushed
}

// ErrOver is returned by WaitFlushed when the flusher ends first.
var ErrOver = errors.New("this node has stopped writing to the bucket")

// WaitFlushed returns nil once lsn is known to be in the bucket; else the error
// of ctx, or ErrOver.
func (f *Flusher) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	for {
		more, err := f.newer(lsn)
		if more == nil {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// newer is nil if lsn is flushed, or never will be; else a channel that is closed
// when more is.
func (f *Flusher) newer(lsn fsm.LSN) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.flushed.Compare(lsn) >= 0:
		return nil, nil
	case f.over:
		return nil, ErrOver
	case f.more == nil:
		f.more = make(chan struct{})
	}
	return f.more, nil
}

// Close ends all waiting. It comes after Run and Final.
func (f *Flusher) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.wakeLocked()
}

func (f *Flusher) wakeLocked() {
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

func (f *Flusher) noteFlushed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if lsn := f.doc.Flushed(); lsn.Compare(f.flushed) > 0 {
		f.flushed = lsn
		f.wakeLocked()
	}
}

// Renewed is when the last write of the document that succeeded began.
func (f *Flusher) Renewed() time.Time { return f.renewed.Load().began }

// Promised returns when the last write of the document that succeeded began, and in which
// time it promises the next one; 0: it promises none.
func (f *Flusher) Promised() (began time.Time, next time.Duration) {
	r := f.renewed.Load()
	return r.began, r.next
}

// promise is the time in which the next write promises the one after it.
func (f *Flusher) promise() time.Duration {
	if f.cfg.IdleHeartbeat <= f.cfg.Heartbeat || f.final || f.fx.Idle == nil || !f.fx.Idle() {
		return 0
	}
	return f.cfg.IdleHeartbeat
}

// heartbeat is the most time between the last write that succeeded and the next one. It
// follows from that write's promise: others have read no later one.
func (f *Flusher) heartbeat() time.Duration {
	return max(f.cfg.Heartbeat, f.renewed.Load().next)
}

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
			if !f.dirty() && !f.forced.Load() {
				continue
			}
			if !sleep(ctx, f.cfg.spread(f.pause(), f.objects)-time.Since(last)) {
				return nil
			}
		}
		last = time.Now()
		if err := f.flush(ctx); err != nil {
			return err
		}
		f.objects = f.draft.Objects()
		next.Reset(f.heartbeat() - time.Since(f.wroteAt))
		if f.Failing() != "" {
			next.Reset(f.cfg.Heartbeat)
			last = time.Now() // a store in trouble gets its rest after the attempt
			f.Changed()       // and is tried again without waiting for a change
		}
	}
}

// pause is how long after the start of the last write, or the end of a failed
// one, the next may start.
func (f *Flusher) pause() time.Duration {
	if f.failures > 0 {
		return min(time.Duration(f.failures)*f.cfg.ConflictBackoff, f.cfg.Heartbeat)
	}
	return f.cfg.pause(f.fx.Interval(), f.doc.Size())
}

// Final writes what is not yet in the bucket, once, after Run has returned. It takes a
// promise back, too: a cluster that takes over from one that was stopped need not wait for
// a heartbeat that never comes.
func (f *Flusher) Final(ctx context.Context) error {
	f.final = true
	_, next := f.Promised()
	if !f.dirty() && next == 0 {
		return nil
	}
	if next > 0 {
		f.forced.Store(true)
	}
	return f.write(ctx)
}

func (f *Flusher) dirty() bool {
	return f.Failing() != "" || f.fx.LSN().Compare(f.doc.Flushed()) > 0
}

// flush brings the document up to date. It returns an error only when the node is
// fenced; other trouble is noted and logged at its beginning and end.
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

// write is one attempt to bring the bucket up to date: step by step, if there is
// much, with the heartbeat renewed in between.
func (f *Flusher) write(ctx context.Context) error {
	for {
		c, behind, err := f.next(ctx)
		switch {
		case err != nil:
			return errors.Join(err, f.renew(ctx))
		case f.forced.Swap(false) || c.LSN() != f.doc.Flushed() || f.failures > 0 || f.heartbeatDue():
			if err := f.put(ctx, c); err != nil {
				return err
			}
		}
		if !behind || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (f *Flusher) next(ctx context.Context) (c *queuefile.Content, behind bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.WriteTimeout)
	defer cancel()
	return f.draft.Draft(ctx, f.doc.Large())
}

// renew writes the last content again if the heartbeat is due: others must not
// take this broker for dead because a segment cannot be written.
func (f *Flusher) renew(ctx context.Context) error {
	if f.heartbeatDue() && ctx.Err() == nil {
		return f.put(ctx, f.draft.Last())
	}
	return nil
}

// heartbeatDue: after the next pause it would be late.
func (f *Flusher) heartbeatDue() bool { return time.Since(f.wroteAt)+f.pause() >= f.heartbeat() }

// put writes one content, edits by others adopted.
func (f *Flusher) put(ctx context.Context, c *queuefile.Content) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.WriteTimeout)
	defer cancel()
	defer f.noteFlushed() // also an earlier write may turn out to have landed
	for attempt := 1; ; attempt++ {
		began, next := time.Now(), f.promise()
		f.doc.Promise(next)
		err := f.doc.Write(ctx, c, f.fx.NowMs())
		if err == nil {
			f.renewed.Store(&heartbeat{began: began, next: next})
			f.wroteAt = time.Now()
			kept := f.draft.Wrote(c)
			f.fx.Wrote(Written{Content: c, Large: f.doc.Large(), Bytes: f.doc.Size(), Kept: kept})
			return nil
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
