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
	"osqueue/internal/sleep"
	"osqueue/storage/document"
)

// Document is the fenced document that the flusher writes; *election.Fence implements it.
// One goroutine uses it at a time.
type Document interface {
	// Write makes c the content of the document, by compare-and-swap. See election.Fence
	// for its errors.
	Write(ctx context.Context, c *document.Content, nowMs int64) error
	// Acquired returns when the write began that acquired the document, and whether the
	// document then named a standby.
	Acquired() (began time.Time, named bool)
	// Announce sets what the following writes tell the clusters that wait for the document.
	Announce(t document.Fence)
	// Flushed returns the newest LSN that is known to be in the document.
	Flushed() fsm.LSN
	// Size returns the number of bytes of the last written document.
	Size() int
	// Viewed reports whether the last written document shows the jobs.
	Viewed() bool
	// OnFailure sets a function that Write calls with each failed attempt before it repeats it.
	OnFailure(failed func(error))
}

// Draft builds contents; *DocumentBuilder implements it. One goroutine uses it at a time.
type Draft interface {
	Draft(ctx context.Context, viewed bool) (c *document.Content, behind bool, err error)
	Last() *document.Content
	// Wrote records that c is in the document. kept is the LSN up to which the archive does
	// not need the entries of the unflushed log any more.
	Wrote(c *document.Content) (kept fsm.LSN)
	// Objects returns the number of objects written since its last call.
	Objects() int
	// Notify sets a function that the draft calls, from any goroutine, when an event that
	// the next content waits for has happened.
	Notify(wake func())
}

// Effects has the functions that the flusher needs from its node.
type Effects struct {
	LSN   func() fsm.LSN // of the state
	NowMs func() int64   // the leader's clock
	// Interval returns the minimum time between two writes, which is at least least; nil
	// means least.
	Interval func(least time.Duration) time.Duration
	// Fence returns the announcement to waiting clusters in the next version of the document;
	// nil: nothing.
	Fence func() document.Fence
	// Edited handles an edit of the document by another writer: it keeps a copy and enqueues
	// new jobs. When it returns nil, the fence is rebased.
	Edited func(ctx context.Context, edit *election.ExternalEditError) error
	// Wrote is called after each successful write of the document.
	Wrote func(w Written)
}

// Flusher is the loop that writes the document. One goroutine calls Run and then Final;
// Changed, Rewrite, WaitFlushed, and the methods that read its state are safe for
// concurrent use.
type Flusher struct {
	cfg   Config
	doc   Document
	draft Draft
	fx    Effects
	log   hclog.Logger

	poke     chan struct{}
	urgent   chan struct{} // signals a wait for the bucket while there was none; capacity 1
	forced   atomic.Bool   // write the next draft even if nothing has changed
	failing  atomic.Pointer[failure]
	busy     atomic.Pointer[time.Time] // when the present write began, or made progress last; nil: none
	failures int                       // consecutive
	owed     int                       // objects for which no flush has waited yet
	took     time.Duration             // of the last flush
	wroteAt  time.Time
	renewed  atomic.Pointer[heartbeat]

	mu      sync.Mutex
	flushed fsm.LSN
	more    chan struct{} // closed when flushed grows; nil without waiters
	over    bool
}

// failure is why writes do not succeed.
type failure struct {
	since  time.Time // of the first failure after a success
	reason string    // of the last one
}

// heartbeat is the last successful write of the document.
type heartbeat struct {
	began time.Time
	named bool // the document may name a standby: this write did, or a later one whose outcome is not known
}

// New returns a flusher for a document that has just been acquired.
func New(cfg Config, doc Document, draft Draft, fx Effects, log hclog.Logger) *Flusher {
	f := &Flusher{cfg: cfg, doc: doc, draft: draft, fx: fx, log: log, poke: make(chan struct{}, 1), urgent: make(chan struct{}, 1), wroteAt: time.Now()}
	f.flushed = doc.Flushed()
	began, named := doc.Acquired()
	f.renewed.Store(&heartbeat{began: began, named: named})
	if f.fx.Fence == nil {
		f.fx.Fence = func() document.Fence { return document.Fence{} }
	}
	if f.fx.Interval == nil {
		f.fx.Interval = func(least time.Duration) time.Duration { return least }
	}
	draft.Notify(f.Changed)
	doc.OnFailure(f.fail)
	return f
}

// Changed wakes the loop because there is something to write. It never blocks.
func (f *Flusher) Changed() { sleep.Wake(f.poke) }

// Rewrite makes the loop build and write the document even if nothing has changed. It never
// blocks.
func (f *Flusher) Rewrite() {
	f.forced.Store(true)
	f.Changed()
}

// Flushed returns the newest LSN that is known to be in the bucket.
func (f *Flusher) Flushed() fsm.LSN {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flushed
}

// ErrOver is the error of WaitFlushed if the flusher is closed before the entry is flushed.
var ErrOver = errors.New("this node has stopped writing to the bucket")

// WaitFlushed waits until lsn is known to be in the bucket and returns nil; otherwise it
// returns the error of ctx, or ErrOver after Close.
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

// newer returns a channel that noteFlushed closes when a newer LSN is flushed, or Close
// closes. It returns a nil channel if lsn is flushed (nil error) or the flusher is closed
// (ErrOver).
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
		sleep.Wake(f.urgent)
	}
	return f.more, nil
}

// Close wakes all callers of WaitFlushed. The caller must not call it before Run and Final
// have returned.
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

// Renewed returns when the last successful write of the document began, and whether the
// document may name a standby: that write did, or a later one whose outcome is not known.
func (f *Flusher) Renewed() (began time.Time, named bool) {
	r := f.renewed.Load()
	return r.began, r.named
}

// Failing returns the error of the last write; "" if it succeeded. A write that repeats failed
// attempts counts as failed.
func (f *Flusher) Failing() string {
	if e := f.failing.Load(); e != nil {
		return e.reason
	}
	return ""
}

// Stalled returns since when writes fail, or the present one makes no progress, and why they
// fail; the zero time: neither, and "": it only takes its time so far.
func (f *Flusher) Stalled() (since time.Time, reason string) {
	if e := f.failing.Load(); e != nil {
		return e.since, e.reason
	}
	if began := f.busy.Load(); began != nil {
		return *began, ""
	}
	return time.Time{}, ""
}

// progress notes that a write begins, or that a part of it is done.
func (f *Flusher) progress() {
	now := time.Now()
	f.busy.Store(&now)
}

// fail notes a failed attempt.
func (f *Flusher) fail(err error) {
	e := &failure{since: time.Now(), reason: err.Error()}
	if last := f.failing.Load(); last != nil {
		e.since = last.since
	}
	f.failing.Store(e)
}

// Run writes until ctx ends, and then returns nil, or until the node is fenced, and then
// returns the *election.FencedError.
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
			if !f.rest(ctx, last) {
				return nil
			}
		}
		pause, waited := f.pause(), time.Since(last)
		last = time.Now()
		if err := f.flush(ctx); err != nil {
			return err
		}
		f.took = time.Since(last)
		f.owed = owe(f.owed, pause, waited, f.draft.Objects())
		next.Reset(f.cfg.Heartbeat - time.Since(f.wroteAt))
		if f.Failing() != "" {
			next.Reset(f.cfg.Heartbeat)
			last = time.Now() // pause after the attempt, because the store is in trouble
			f.Changed()       // and try again without waiting for a change
		}
	}
}

const (
	// gather is the part of a write's time that the next one waits after it, so that it includes
	// the requests of clients that the first one answered.
	gather = 10
	// gatherMax bounds this wait: after a flush of minutes, the heartbeat must not be late.
	gatherMax = 50 * time.Millisecond
)

// rest waits out the pause after last. It ends sooner when a request begins to wait for the
// bucket. It returns false if ctx ended first.
func (f *Flusher) rest(ctx context.Context, last time.Time) bool {
	for {
		pause := f.cfg.spread(f.pause(), f.owed)
		if f.failures == 0 { // then last is the start of the last write
			pause = max(pause, f.took+min(f.took/gather, gatherMax))
		}
		left := time.NewTimer(pause - time.Since(last))
		select {
		case <-left.C:
			return ctx.Err() == nil
		case <-f.urgent:
			left.Stop()
		case <-ctx.Done():
			left.Stop()
			return false
		}
	}
}

// pause returns the time between the start of the last write, or the end of a failed one,
// and the next start.
func (f *Flusher) pause() time.Duration {
	if f.failures > 0 {
		return min(time.Duration(f.failures)*f.cfg.ConflictBackoff, f.cfg.Heartbeat, retryMax)
	}
	least := f.cfg.Interval
	if f.awaited() {
		least = f.cfg.UrgentInterval
	}
	return f.cfg.pause(f.fx.Interval(least), f.doc.Size())
}

// awaited reports whether a request waits for the bucket.
func (f *Flusher) awaited() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.more != nil
}

// retryMax bounds the pause after a failed write, so that the bucket is up to date soon after it
// is reachable again, or its credentials are valid again.
const retryMax = 2 * time.Second

// Final writes the unflushed changes once, after Run has returned.
func (f *Flusher) Final(ctx context.Context) error {
	if !f.dirty() {
		return nil
	}
	return f.write(ctx)
}

func (f *Flusher) dirty() bool {
	return f.Failing() != "" || f.fx.LSN().Compare(f.doc.Flushed()) > 0
}

// flush brings the document up to date. It returns an error only if the node is fenced; it
// records any other error, and logs the first failure and the recovery.
func (f *Flusher) flush(ctx context.Context) error {
	f.progress()
	err := f.write(ctx)
	f.busy.Store(nil)
	if _, fenced := errors.AsType[*election.FencedError](err); fenced {
		return err
	}
	if ctx.Err() == nil { // after the end of the leader term errors have no meaning
		f.note(err)
	}
	return nil
}

func (f *Flusher) note(err error) {
	if err == nil {
		if f.failures > 0 {
			f.log.Info("the bucket takes writes again", "flushed", f.doc.Flushed())
		}
		f.failing.Store(nil)
		f.failures = 0
		return
	}
	f.fail(err)
	if f.failures++; f.failures == 1 {
		f.log.Warn("cannot write the state to the bucket; the cluster continues without it", "error", err)
	}
}

// write makes one attempt to bring the bucket up to date. If there is much to write, it
// proceeds in steps and renews the heartbeat between them.
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

func (f *Flusher) next(ctx context.Context) (c *document.Content, behind bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.WriteTimeout)
	defer cancel()
	return f.draft.Draft(ctx, f.doc.Viewed())
}

// renew writes the last content again if the heartbeat is due: other nodes must not take
// this broker for dead because a segment cannot be written.
func (f *Flusher) renew(ctx context.Context) error {
	if f.heartbeatDue() && ctx.Err() == nil {
		return f.put(ctx, f.draft.Last())
	}
	return nil
}

// heartbeatDue reports whether the heartbeat would be late after the next pause.
func (f *Flusher) heartbeatDue() bool { return time.Since(f.wroteAt)+f.pause() >= f.cfg.Heartbeat }

// put writes one content, and handles edits by other writers.
func (f *Flusher) put(ctx context.Context, c *document.Content) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.WriteTimeout)
	defer cancel()
	defer f.noteFlushed() // an earlier write may turn out to have succeeded
	for attempt := 1; ; attempt++ {
		began := time.Now()
		t := f.fx.Fence()
		f.doc.Announce(t)
		named := len(t.Standbys) > 0
		if last := f.renewed.Load(); named && !last.named { // before it is sent: its answer may get lost
			f.renewed.Store(&heartbeat{began: last.began, named: true})
		}
		err := f.doc.Write(ctx, c, f.fx.NowMs())
		if err == nil {
			f.renewed.Store(&heartbeat{began: began, named: named})
			f.wroteAt = time.Now()
			if f.busy.Load() != nil {
				f.progress()
			}
			kept := f.draft.Wrote(c)
			w := Written{Content: c, Viewed: f.doc.Viewed(), Bytes: f.doc.Size(), Kept: kept}
			f.fx.Wrote(w)
			if f.cfg.Flushed != nil {
				f.cfg.Flushed(began, w)
			}
			return nil
		}
		var edit *election.ExternalEditError
		if !errors.As(err, &edit) {
			return err
		}
		if attempt > f.cfg.ConflictRetries {
			return fmt.Errorf("another program keeps changing the document: %w", err)
		}
		if err := f.fx.Edited(ctx, edit); err != nil {
			return fmt.Errorf("take in an edit of the document: %w", err)
		}
		if !sleep.For(ctx, time.Duration(attempt)*f.cfg.ConflictBackoff) {
			return ctx.Err()
		}
	}
}
