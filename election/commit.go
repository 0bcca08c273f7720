package election

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/document"
)

// commit sends p until its outcome is certain. It calls moved if the document is neither
// the version that p replaces nor one that this fence has sent: an error from moved ends
// the attempt; nil repeats it on the version that the fence then has.
func (f *Fence) commit(ctx context.Context, p *pending, moved func(o storage.Object, found bool) error) error {
	for attempt := 0; ; attempt++ {
		w := put(ctx, f.bucket, f.key, f.version, p.data)
		switch {
		case w.Outcome == storage.Committed:
			f.version = w.Version
			f.landed(p.sent)
			if attempt == 0 {
				f.spare = p.data // a store may still read from the buffer of a repeated attempt
			}
			return nil
		case attempt == 0 && notApplied(w.Err):
			return w.Err
		}
		if w.Outcome == storage.Unknown {
			f.noteFailed(w.Err)
		}
		o, found, err := getSettling(ctx, f.bucket, f.key)
		switch {
		case err != nil:
			return unknown(w, err)
		case o.Version == f.version: // or there still is no document
			if !pause(ctx, attempt) {
				return unknown(w, ctx.Err())
			}
		case f.recognise(o):
			if f.sent[0].id == p.id {
				return nil
			}
			f.sent = append(f.sent, p.sent)
		default:
			if err := moved(o, found); err != nil {
				return err
			}
		}
	}
}

// recognise makes the document the version to replace if this fence has sent its bytes: a
// version whose answer was lost, or the present version, copied onto itself.
func (f *Fence) recognise(o storage.Object) bool {
	s, ok := f.find(o.Data)
	if ok {
		f.version = o.Version
		f.landed(s)
	}
	return ok
}

// moved distinguishes a takeover from an external edit. It always returns an error, so
// the write ends.
func (f *Fence) moved(o storage.Object, found bool) error {
	if !found {
		return &ExternalEditError{}
	}
	seen, err := observe(f.key, o)
	if err != nil {
		return err
	}
	f.noteHistory(seen.Doc.Header)
	if f.fenced = f.successor(seen); f.fenced != nil {
		return f.fenced
	}
	return &ExternalEditError{Observed: seen}
}

// successor returns the error about the broker that has the document now, or nil if it is
// still this one. A document without a broker or a header was edited, because every
// broker writes both.
func (f *Fence) successor(seen Observed) *FencedError {
	d, h := seen.Doc, seen.Doc.Header
	other := d.Broker != nil && *d.Broker != f.me.Address
	ours := h == nil || h.Epoch == f.epoch && h.Lineage == f.lineage && h.Cluster == f.me.Cluster && h.Node == f.me.Node
	switch {
	case !ours:
		return &FencedError{Epoch: h.Epoch, Node: h.Node, Cluster: h.Cluster, Address: d.BrokerAddress()}
	case other:
		return &FencedError{Address: d.BrokerAddress()}
	}
	return nil
}

// The pauses between the attempts to settle one write. They double up to longPause.
const (
	firstPause = 10 * time.Millisecond
	longPause  = time.Second
)

// pause waits before the next attempt. It reports whether ctx is still valid.
func pause(ctx context.Context, attempt int) bool {
	return sleep.For(ctx, min(firstPause<<min(attempt, 10), longPause))
}

// put replaces version, or creates the object if there is none.
func put(ctx context.Context, b storage.Bucket, key string, version storage.Version, data []byte) storage.Write {
	if version == "" {
		return b.PutIfAbsent(ctx, key, data)
	}
	return b.PutIfMatch(ctx, key, data, version)
}

// notApplied reports whether a write with that error was not applied and never will be.
func notApplied(err error) bool {
	return errors.Is(err, storage.ErrThrottled) || errors.Is(err, storage.ErrInvalidKey)
}

// getSettling reads until the store answers or ctx ends.
func getSettling(ctx context.Context, b storage.Bucket, key string) (o storage.Object, found bool, err error) {
	for attempt := 0; ; attempt++ {
		if o, found, err = get(ctx, b, key); err == nil {
			return o, found, nil
		}
		if !pause(ctx, attempt) {
			return storage.Object{}, false, err
		}
	}
}

// unknown returns the error for a write that was not settled because of why.
func unknown(w storage.Write, why error) error {
	if w.Err == nil {
		return fmt.Errorf("%w: %w", ErrUnknown, why)
	}
	return fmt.Errorf("%w: %w; then: %w", ErrUnknown, w.Err, why)
}

// writesMax is the number of ids of past writes in a document.
const writesMax = 16

// doubtMax is the largest number of writes without a known outcome that the fence
// remembers. Each Write that ends without an answer adds one, seconds apart.
const doubtMax = 4096

// sent has the properties of a version that the fence has sent.
type sent struct {
	id  string
	lsn fsm.LSN
	sum uint64 // of the bytes
	len int

	viewed bool      // it shows the jobs
	jobs   *fsm.View // the state whose jobs it shows, if viewed
}

// pending is a version that the fence is sending.
type pending struct {
	sent
	data []byte
}

// seed is secret to the process, so that no other program can make two documents with the
// same sum.
var seed = maphash.MakeSeed()

// prepare encodes c as the next version, with a new id, and remembers it.
func (f *Fence) prepare(c *document.Content, nowMs int64) *pending {
	id := rand.Text()
	f.writes = lastWrites(append(slices.Clone(f.writes), id))
	// Allocate some spare capacity at once: growing the buffer repeatedly would copy a
	// large document each time and delay the flush.
	room := slices.Grow(f.spare[:0], f.size+f.size/8)
	data, viewed := document.AppendTo(room, c, document.Header{
		Lineage:   f.lineage,
		Cluster:   f.me.Cluster,
		Epoch:     f.epoch,
		Node:      f.me.Node,
		Write:     id,
		Writes:    f.writes,
		Fence:     f.me.Fence,
		Handovers: f.passed,
	}, f.me.Address, nowMs)
	f.spare = nil // until the store has certainly finished reading it
	p := &pending{
		sent: sent{id: id, lsn: c.LSN(), sum: maphash.Bytes(seed, data), len: len(data), viewed: viewed, jobs: c.Jobs},
		data: data,
	}
	if len(f.sent) >= doubtMax {
		f.sent = slices.Delete(f.sent, 0, 1)
	}
	f.sent = append(f.sent, p.sent)
	f.newest = later(f.newest, p.lsn)
	return p
}

// find returns the remembered version with these bytes.
func (f *Fence) find(data []byte) (sent, bool) {
	sum := maphash.Bytes(seed, data)
	for _, s := range f.sent {
		if s.sum == sum && s.len == len(data) {
			return s, true
		}
	}
	return sent{}, false
}

// landed makes s, at the fence's new version, the version that the next write replaces.
// Writes without a known outcome were conditional on the previous version, so they can no
// longer be applied.
func (f *Fence) landed(s sent) {
	f.sent = append(f.sent[:0], s)
	f.size, f.viewed = s.len, s.viewed
	f.flushed = later(f.flushed, s.lsn)
}

// noteHistory finds, from the ids in a document of another writer, the remembered writes
// that had been applied before it.
func (f *Fence) noteHistory(h *document.Header) {
	if h == nil {
		return
	}
	for _, s := range f.sent {
		if s.id == h.Write || slices.Contains(h.Writes, s.id) {
			f.flushed = later(f.flushed, s.lsn)
		}
	}
}

func lastWrites(ids []string) []string { return ids[max(0, len(ids)-writesMax):] }

func later(a, b fsm.LSN) fsm.LSN {
	if a.Compare(b) >= 0 {
		return a
	}
	return b
}
