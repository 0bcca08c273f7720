package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// Fence is an active leader's hold on the document. It is used by one goroutine
// at a time.
type Fence struct {
	bucket  storage.Bucket
	key     string
	me      Candidate
	epoch   uint64
	lineage string

	version storage.Version      // what the next write replaces; "" creates
	sent    []sent               // the base, if it is ours, and what was sent over it since
	writes  []string             // ids of the last writes, oldest first
	passed  []queuefile.Handover // where the parts of other clusters end
	newest  fsm.LSN              // of all that was ever sent
	flushed fsm.LSN              // of what is known to be, or have been, in the document
	size    int
	large   bool
	next    time.Duration // promised with the next write
	spare   []byte        // a buffer to encode into
	fenced  *FencedError
}

// Acquire writes content c, under a new epoch, over the document observed. It is
// to be called for Create and TakeOver of a Decision about o. The epoch is one
// more than any that the document, c or the candidate knows; the lineage is the
// document's, else that of c, else a fresh one.
//
// c may be what the document holds already: a candidate can carry the archive of
// a large document over as it is, and catch up by the first Write. Jobs that
// somebody had added to it (Document.Jobs) are gone then, and are to be enqueued.
//
// It fails with ErrConflict if somebody else was first, with ErrOlderState if c
// lies before the document, with storage.ErrThrottled if the store refused, and
// with ErrUnknown if ctx ended before the outcome was certain: then read the
// document again.
func Acquire(
	ctx context.Context, bucket storage.Bucket, key string, o Observed, me Candidate, c *queuefile.Content, nowMs int64,
) (*Fence, error) {
	f := &Fence{bucket: bucket, key: key, me: me, version: o.Version}
	if err := f.succeed(o.Doc, c); err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	err := f.commit(ctx, f.draft(c, nowMs), func(storage.Object, bool) error { return ErrConflict })
	if err != nil {
		return nil, fmt.Errorf("acquire %q with epoch %d: %w", key, f.epoch, err)
	}
	return f, nil
}

// succeed takes over from the document what is handed down.
func (f *Fence) succeed(doc *queuefile.Document, c *queuefile.Content) error {
	if f.me.Address == "" || f.me.Node == "" {
		return errors.New("the candidate has no name or no address")
	}
	if err := c.Check(); err != nil {
		return err
	}
	m := &c.Meta
	f.epoch, f.lineage = max(f.me.Epoch, m.Broker.Epoch), m.Lineage
	if doc != nil && doc.Header != nil {
		h := doc.Header
		if m.Lineage != "" && m.Lineage != h.Lineage {
			return fmt.Errorf("the state is of lineage %s, the document of lineage %s: adopt the document first",
				m.Lineage, h.Lineage)
		}
		if m.LSN.Compare(h.LSN()) < 0 {
			return fmt.Errorf("%w: %s is before %s: adopt the document first", ErrOlderState, m.LSN, h.LSN())
		}
		f.epoch, f.lineage = max(f.epoch, h.Epoch), h.Lineage
		f.writes = lastWrites(h.Writes)
		f.passed = doc.HandedOver(f.me.Cluster)
	}
	f.epoch++
	if f.lineage == "" {
		f.lineage = uuid.NewString()
	}
	return nil
}

// Epoch is the fencing number of this hold.
func (f *Fence) Epoch() uint64 { return f.epoch }

// Lineage is the document's lineage.
func (f *Fence) Lineage() string { return f.lineage }

// Flushed is the newest LSN that is certain to be in the document.
func (f *Fence) Flushed() fsm.LSN { return f.flushed }

// Size is the number of bytes of the last version that is certain to be ours.
func (f *Fence) Size() int { return f.size }

// Large reports whether that version had an archive in place of the state.
func (f *Fence) Large() bool { return f.large }

// Version is the version that the next Write will replace.
func (f *Fence) Version() storage.Version { return f.version }

// Promise makes every following Write promise the next heartbeat within that time. 0, the
// default, promises none: the next one comes well within the broker timeout.
func (f *Fence) Promise(next time.Duration) { f.next = next }

// Write makes c the content of the document, with nowMs as the broker's
// heartbeat. nil means that it is in the document. Otherwise the error is or
// wraps
//
//   - *FencedError: another broker has the document. The fence is at its end.
//   - *ExternalEditError: somebody edited the document. Adopt, Rebase, Write.
//   - storage.ErrThrottled: the store refused, nothing was applied.
//   - ErrOlderState: c lies before what is or may be in the document.
//   - ErrUnreadable: the document is damaged, and left as it is.
//   - ErrUnknown: ctx ended first. The write may have been applied or still
//     be; the next Write copes with either.
//
// Flushed can have advanced even then, by an earlier write that turned out to
// have been applied.
func (f *Fence) Write(ctx context.Context, c *queuefile.Content, nowMs int64) error {
	if err := f.mayWrite(c); err != nil {
		return err
	}
	err := f.commit(ctx, f.draft(c, nowMs), f.moved)
	if err != nil {
		return fmt.Errorf("write %q: %w", f.key, err)
	}
	return nil
}

// mayWrite refuses, before anything is sent, what must not reach the document.
func (f *Fence) mayWrite(c *queuefile.Content) error {
	m := &c.Meta
	switch {
	case f.fenced != nil:
		return f.fenced
	case m.Broker.Epoch > f.epoch:
		f.fenced = &FencedError{
			Epoch: m.Broker.Epoch, Node: m.Broker.Node, Cluster: m.Cluster, Address: m.Broker.Address,
		}
		return f.fenced
	case m.Lineage != "" && m.Lineage != f.lineage:
		return fmt.Errorf("write %q: the state is of lineage %s, the document of lineage %s: acquire it anew",
			f.key, m.Lineage, f.lineage)
	case m.LSN.Compare(f.newest) < 0:
		return fmt.Errorf("write %q: %w: %s was sent, %s lies before it", f.key, ErrOlderState, f.newest, m.LSN)
	}
	if err := c.Check(); err != nil {
		return fmt.Errorf("write %q: %w", f.key, err)
	}
	return nil
}

// Rebase accepts an observed version, that of an ExternalEditError, as the one
// that the next Write replaces.
func (f *Fence) Rebase(o Observed) { f.version = o.Version }
