// Package recording is a decorator for tests that keeps every version that a
// bucket has accepted, in the order of acceptance, so that a test can check an
// invariant over the whole history of an object.
//
// To make that order certain, operations on the same key wait for each other
// while they pass through. Put it directly on the store, beneath fault
// injection: a write whose answer is lost above is then still recorded. When the
// store itself leaves an outcome unknown, or another program writes to it, the
// version appears after a Get has returned it, marked as Observed; versions that
// no Get returned are missing.
package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"osqueue/storage"
)

// How says how a version came to be known.
type How string

// The ways in which an entry comes into the history.
const (
	Created  How = "created"  // a PutIfAbsent or a PutStream was committed
	Replaced How = "replaced" // a PutIfMatch was committed
	Observed How = "observed" // a Get returned it first
	Deleted  How = "deleted"  // a Delete succeeded; no version, no data
)

// Entry is one version of one object. Its Data is never changed.
type Entry struct {
	Key     string
	How     How
	Version storage.Version
	// Parent is the version that a Replaced one has replaced.
	Parent storage.Version
	Data   []byte
}

// Bucket records what passes through it. It is safe for concurrent use.
type Bucket struct {
	inner    storage.Bucket
	onAccept func(Entry)

	mu   sync.Mutex
	keys map[string]*object
}

type object struct {
	turn    chan struct{} // holds one token while an operation is under way
	entries []Entry       // under Bucket.mu
}

var (
	_ storage.Bucket   = (*Bucket)(nil)
	_ storage.Streamer = (*Bucket)(nil)
)

// New decorates inner. onAccept, unless nil, is called with each entry in the
// order of its key's history and before the operation returns; it must not use
// the bucket.
func New(inner storage.Bucket, onAccept func(Entry)) *Bucket {
	if onAccept == nil {
		onAccept = func(Entry) {}
	}
	return &Bucket{inner: inner, onAccept: onAccept, keys: make(map[string]*object)}
}

// History returns what is recorded of key, oldest first.
func (b *Bucket) History(key string) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o, ok := b.keys[key]; ok {
		return slices.Clone(o.entries)
	}
	return nil
}

// Keys returns the keys that have a history, sorted.
func (b *Bucket) Keys() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := []string{}
	for key, o := range b.keys {
		if len(o.entries) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	o, err := b.enter(ctx, key)
	if err != nil {
		return storage.Object{}, err
	}
	defer o.leave()
	got, err := b.inner.Get(ctx, key)
	if err == nil && b.latest(o) != got.Version {
		b.add(o, Entry{Key: key, How: Observed, Version: got.Version, Data: bytes.Clone(got.Data)})
	}
	return got, err
}

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.write(ctx, Entry{Key: key, How: Created, Data: data}, func() storage.Write {
		return b.inner.PutIfAbsent(ctx, key, data)
	})
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return b.write(ctx, Entry{Key: key, How: Replaced, Parent: v, Data: data}, func() storage.Write {
		return b.inner.PutIfMatch(ctx, key, data, v)
	})
}

func (b *Bucket) write(ctx context.Context, e Entry, put func() storage.Write) storage.Write {
	o, err := b.enter(ctx, e.Key)
	if err != nil {
		return storage.Write{Err: err}
	}
	defer o.leave()
	w := put()
	if w.Outcome == storage.Committed {
		e.Version, e.Data = w.Version, bytes.Clone(e.Data)
		b.add(o, e)
	}
	return w
}

// PutStream implements storage.Streamer. The history has all of the bytes.
func (b *Bucket) PutStream(ctx context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	o, err := b.enter(ctx, key)
	if err != nil {
		return storage.Write{Err: err}
	}
	defer o.leave()
	var read bytes.Buffer
	w := b.streams().PutStream(ctx, key, io.TeeReader(r, &read), c)
	if w.Outcome == storage.Committed {
		b.add(o, Entry{Key: key, How: Created, Version: w.Version, Data: read.Bytes()})
	}
	return w
}

// GetRange implements storage.Streamer.
func (b *Bucket) GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	return b.streams().GetRange(ctx, key, offset, length)
}

// Stat implements storage.Streamer.
func (b *Bucket) Stat(ctx context.Context, key string) (storage.Stat, error) {
	return b.streams().Stat(ctx, key)
}

// streams returns the inner bucket, which must have streams if they are used.
func (b *Bucket) streams() storage.Streamer { return b.inner.(storage.Streamer) }

// List implements storage.Bucket.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	return b.inner.List(ctx, prefix, fn)
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	o, err := b.enter(ctx, key)
	if err != nil {
		return err
	}
	defer o.leave()
	if err := b.inner.Delete(ctx, key); err != nil {
		return err
	}
	if b.latest(o) != "" {
		b.add(o, Entry{Key: key, How: Deleted})
	}
	return nil
}

// Close implements storage.Bucket. The history stays readable.
func (b *Bucket) Close() error { return b.inner.Close() }

// enter waits for the key's turn.
func (b *Bucket) enter(ctx context.Context, key string) (*object, error) {
	if err := errors.Join(ctx.Err(), storage.ValidateKey(key)); err != nil {
		return nil, err
	}
	b.mu.Lock()
	o, ok := b.keys[key]
	if !ok {
		o = &object{turn: make(chan struct{}, 1)}
		b.keys[key] = o
	}
	b.mu.Unlock()
	select {
	case o.turn <- struct{}{}:
		return o, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an earlier operation on %q: %w", key, ctx.Err())
	}
}

func (o *object) leave() { <-o.turn }

func (b *Bucket) latest(o *object) storage.Version {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(o.entries) == 0 {
		return ""
	}
	return o.entries[len(o.entries)-1].Version
}

func (b *Bucket) add(o *object, e Entry) {
	b.mu.Lock()
	o.entries = append(o.entries, e)
	b.mu.Unlock()
	b.onAccept(e)
}
