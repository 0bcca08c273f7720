package election

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// Fence is the right of an active leader to write the document. It is not safe for
// concurrent use.
type Fence struct {
	bucket  storage.Bucket
	key     string
	me      Candidate
	epoch   uint64
	lineage string

	version storage.Version     // the version that the next write replaces; "" creates the document
	sent    []sent              // the present version, if this fence wrote it, and the versions sent since
	writes  []string            // ids of the last writes, oldest first
	passed  []document.Handover // the ends of the parts of other clusters
	newest  fsm.LSN             // of all versions sent
	flushed fsm.LSN             // of all versions that certainly were in the document
	size    int
	viewed  bool
	began   time.Time // of the write that acquired the document
	named   bool      // whether that write named a standby
	spare   []byte    // a buffer to encode into
	fenced  *FencedError
	failed  func(error) // OnFailure; nil: none
}

// Acquire overwrites the observed document with content c, under a new epoch. Call it for
// Create and TakeOver of a Decision about o. The epoch is one more than every epoch of the
// document, c and the candidate; the lineage is the document's, else that of c, else a new
// one.
//
// c may be the present content of the document: a candidate can keep the archive as it is, and
// bring the state up to date with the first Write. This removes the jobs that an editor had
// added to the document (File.View), so the caller must enqueue them first.
//
// The error wraps ErrConflict if another writer was first, ErrOlderState if c is older
// than the document, storage.ErrThrottled if the store refused the request, and ErrUnknown
// if ctx ended before the outcome was certain: then read the document again.
func Acquire(
	ctx context.Context, bucket storage.Bucket, key string, o Observed, me Candidate, c *document.Content, nowMs int64,
) (*Fence, error) {
	f := &Fence{bucket: bucket, key: key, me: me, version: o.Version, began: time.Now(), named: len(me.Fence.Standbys) > 0}
	if err := f.succeed(o.Doc, c); err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	err := f.commit(ctx, f.prepare(c, nowMs), func(storage.Object, bool) error { return ErrConflict })
	if err != nil {
		return nil, fmt.Errorf("acquire %q with epoch %d: %w", key, f.epoch, err)
	}
	return f, nil
}

// succeed takes the epoch, the lineage and the history over from the document.
func (f *Fence) succeed(doc *document.File, c *document.Content) error {
	if f.me.Address == "" || f.me.Node == "" {
		return errors.New("the candidate has no name or no address: set both")
	}
	if err := c.Check(); err != nil {
		return err
	}
	m := c.Meta
	f.epoch, f.lineage = max(f.me.Epoch, m.Epoch), m.Lineage
	if doc != nil && doc.Header != nil {
		h := doc.Header
		if m.Lineage != "" && m.Lineage != h.Lineage {
			return fmt.Errorf("the state is of lineage %s, the document of lineage %s: adopt the document first",
				m.Lineage, h.Lineage)
		}
		if m.LSN().Compare(h.LSN()) < 0 {
			return fmt.Errorf("%w: %s is before %s: adopt the document first", ErrOlderState, m.LSN(), h.LSN())
		}
		f.epoch, f.lineage = max(f.epoch, h.Epoch), h.Lineage
		f.writes = lastWrites(h.Writes)
		f.passed = doc.HandedOver(f.me.Cluster)
	}
	if f.epoch == math.MaxUint64 {
		return fmt.Errorf("epoch %d is the largest one, and no takeovers reach it: the document was "+
			"changed; move it away, and a leader that has the state writes it again", f.epoch)
	}
	f.epoch++
	if f.lineage == "" {
		f.lineage = uuid.NewString()
	}
	return nil
}

// Epoch returns the fencing number of this fence.
func (f *Fence) Epoch() uint64 { return f.epoch }

// Lineage returns the document's lineage.
func (f *Fence) Lineage() string { return f.lineage }

// Flushed returns the newest LSN that is certain to be in the document.
func (f *Fence) Flushed() fsm.LSN { return f.flushed }

// Size returns the bytes of the last version that this fence certainly wrote.
func (f *Fence) Size() int { return f.size }

// Viewed reports whether that version showed the jobs.
func (f *Fence) Viewed() bool { return f.viewed }

// Version returns the version that the next Write replaces.
func (f *Fence) Version() storage.Version { return f.version }

// Acquired returns when the write began that acquired the document, and whether the document
// then named a standby.
func (f *Fence) Acquired() (began time.Time, named bool) { return f.began, f.named }

// Announce sets the announcement that every following Write makes to waiting clusters.
func (f *Fence) Announce(t document.Fence) { f.me.Fence = t }

// OnFailure sets a function that Write calls with each failed attempt before it repeats it, so
// that a failure is known before the outcome of the write is.
func (f *Fence) OnFailure(failed func(error)) { f.failed = failed }

func (f *Fence) noteFailed(err error) {
	if f.failed != nil && err != nil {
		f.failed(err)
	}
}

// Write makes c the content of the document, with nowMs as the broker's heartbeat. It
// returns nil if c is in the document. Otherwise the error is or wraps
//
//   - *FencedError: another broker has the document. This fence never writes again.
//   - *ExternalEditError: another writer edited the document. Adopt, Rebase, Write.
//   - storage.ErrThrottled: the store refused the request; nothing was applied.
//   - ErrOlderState: c is older than a state that is, or may be, in the document.
//   - ErrUnreadable: the document is damaged; it is unchanged.
//   - ErrUnknown: ctx ended first. The write may have been applied, or may still be; the
//     next Write handles both.
//
// Flushed can advance even with an error, if an earlier write turns out to have been
// applied.
func (f *Fence) Write(ctx context.Context, c *document.Content, nowMs int64) error {
	if err := f.mayWrite(c); err != nil {
		return err
	}
	err := f.commit(ctx, f.prepare(c, nowMs), f.moved)
	if err != nil {
		return fmt.Errorf("write %q: %w", f.key, err)
	}
	return nil
}

// mayWrite refuses content that must not reach the document, before anything is sent.
func (f *Fence) mayWrite(c *document.Content) error {
	m := c.Meta
	switch {
	case f.fenced != nil:
		return f.fenced
	case m.Epoch > f.epoch:
		f.fenced = &FencedError{
			Epoch: m.Epoch, Node: m.BrokerNode, Cluster: m.Cluster, Address: m.BrokerAddress,
		}
		return f.fenced
	case m.Lineage != "" && m.Lineage != f.lineage:
		return fmt.Errorf("write %q: the state is of lineage %s, the document of lineage %s: acquire it again",
			f.key, m.Lineage, f.lineage)
	case m.LSN().Compare(f.newest) < 0:
		return fmt.Errorf("write %q: %w: %s was written before, and %s is older", f.key, ErrOlderState, f.newest, m.LSN())
	}
	if err := c.Check(); err != nil {
		return fmt.Errorf("write %q: %w", f.key, err)
	}
	return nil
}

// Sent reports whether this fence has sent the version with that id as the last one, or since.
// If that version shows jobs, jobs is the state that they are from.
func (f *Fence) Sent(id string) (jobs *fsm.View, ok bool) {
	i := slices.IndexFunc(f.sent, func(s sent) bool { return s.id == id })
	if i < 0 {
		return nil, false
	}
	return f.sent[i].jobs, true
}

// Rebase makes an observed version, that of an ExternalEditError, the version that the
// next Write replaces.
func (f *Fence) Rebase(o Observed) { f.version = o.Version }

var (
	// ErrConflict is wrapped by Acquire if the document changed since it was observed:
	// read it and decide again.
	ErrConflict = errors.New("another writer changed the document first")
	// ErrOlderState is wrapped if the state to write is older than a state that is, or
	// may be, in the document.
	ErrOlderState = errors.New("the state is older than the document")
	// ErrUnknown is wrapped if a write may have been applied, or may still be applied,
	// and the context ended before that was certain.
	ErrUnknown = errors.New("the outcome of the write is unknown")
	// ErrUnreadable is wrapped for a document that exists and is not valid. Nothing
	// overwrites it: repair it, or move it away.
	ErrUnreadable = errors.New("the document cannot be read")
)

// FencedError reports that the document belongs to another broker now. It is final: a
// fence that returned it never writes again.
type FencedError struct {
	Epoch   uint64 // of the other broker; 0 for a legacy broker
	Node    string // "" for a broker without a header
	Cluster string
	Address string
}

// Error returns a text with the other broker.
func (e *FencedError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("fenced: another broker, %s, has taken over the document", e.Address)
	}
	return fmt.Sprintf("fenced: node %s at %s has taken over the document with epoch %d", e.Node, e.Address, e.Epoch)
}

// Observed is a document that was read. The zero value means that there is no document.
type Observed struct {
	Doc     *document.File
	Raw     []byte
	Version storage.Version
}

// Read reads the document at key. If the document cannot be decoded, the error wraps
// ErrUnreadable, and no writer may overwrite it.
func Read(ctx context.Context, bucket storage.Bucket, key string) (Observed, error) {
	o, found, err := get(ctx, bucket, key)
	if err != nil || !found {
		return Observed{}, err
	}
	return observe(key, o)
}

func observe(key string, o storage.Object) (Observed, error) {
	doc, err := document.Decode(o.Data)
	if err != nil {
		return Observed{}, fmt.Errorf(
			"%q: %w: %w: repair it (osqueue verify --repair), replace it with a backup, or move it away; "+
				"until then nothing is written",
			key, ErrUnreadable, err)
	}
	return Observed{Doc: doc, Raw: o.Data, Version: o.Version}, nil
}

// ExternalEditError reports that another writer changed the document under the present
// epoch. Observed is the present document: adopt it, then Rebase the fence on it. Doc is
// nil if the document was removed: there is nothing to adopt, and after Rebase the next
// Write creates it again.
type ExternalEditError struct{ Observed }

// Error returns the kind of the change.
func (e *ExternalEditError) Error() string {
	if e.Doc == nil {
		return "another writer removed the document"
	}
	return "another writer changed the document without a takeover"
}

// get reads an object. Absence is not an error.
func get(ctx context.Context, bucket storage.Bucket, key string) (o storage.Object, found bool, err error) {
	o, err = bucket.Get(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return storage.Object{}, false, nil
	case err != nil:
		return storage.Object{}, false, fmt.Errorf("read %q: %w", key, err)
	default:
		return o, true, nil
	}
}
