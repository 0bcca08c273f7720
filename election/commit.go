package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"osqueue/internal/sleep"
	"osqueue/storage"
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
