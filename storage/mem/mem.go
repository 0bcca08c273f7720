// Package mem is a bucket in the memory of one process, for tests, for the
// simulator and for a throw-away server. It keeps the whole contract of
// storage.Bucket, versions included, and nothing survives the process.
//
// A bucket got by name lives as long as the process: closing one handle must
// not take it away from another. New makes one that belongs to its caller.
package mem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"osqueue/storage"
)

// Bucket keeps objects in a map. The zero value is not usable; see New.
type Bucket struct {
	mu      sync.RWMutex
	objects map[string]storage.Object
	// writes counts every accepted write, so that no version ever repeats,
	// not even across a Delete.
	writes uint64
}

var (
	_ storage.Bucket   = (*Bucket)(nil)
	_ storage.Streamer = (*Bucket)(nil)
)

// New returns an empty bucket.
func New() *Bucket {
	return &Bucket{objects: make(map[string]storage.Object)}
}

var named = struct {
	sync.Mutex
	buckets map[string]*Bucket
}{buckets: make(map[string]*Bucket)}

// Named returns the process-wide bucket of that name, made at first use. The
// empty name is a name like any other.
func Named(name string) *Bucket {
	named.Lock()
	defer named.Unlock()
	b, ok := named.buckets[name]
	if !ok {
		b = New()
		named.buckets[name] = b
	}
	return b
}

// Open returns the bucket that mem://NAME stands for.
func Open(_ context.Context, u *url.URL) (*Bucket, error) {
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("bucket URL %q: a memory bucket has a name and nothing else: write mem://NAME", storage.RedactURL(u))
	}
	return Named(u.Host), nil
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	if err := check(ctx, key); err != nil {
		return storage.Object{}, fmt.Errorf("get %q from memory: %w", key, err)
	}
	b.mu.RLock()
	o, ok := b.objects[key]
	b.mu.RUnlock()
	if !ok {
		return storage.Object{}, fmt.Errorf("get %q from memory: %w", key, storage.ErrNotFound)
	}
	o.Data = bytes.Clone(o.Data)
	return o, nil
}

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.put(ctx, key, data, func(_ storage.Object, exists bool) bool { return !exists })
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return b.put(ctx, key, data, func(o storage.Object, exists bool) bool { return exists && o.Version == v })
}

func (b *Bucket) put(
	ctx context.Context, key string, data []byte, allowed func(storage.Object, bool) bool,
) storage.Write {
	if err := errors.Join(ctx.Err(), storage.ValidateWrite(key, data)); err != nil {
		return storage.Write{Err: fmt.Errorf("put %q in memory: %w", key, err)}
	}
	data = append([]byte{}, data...)
	b.mu.Lock()
	defer b.mu.Unlock()
	o, exists := b.objects[key]
	if !allowed(o, exists) {
		return storage.Write{Outcome: storage.Conflict}
	}
	b.writes++
	v := storage.Version(strconv.FormatUint(b.writes, 10))
	b.objects[key] = storage.Object{Data: data, Version: v}
	return storage.Write{Outcome: storage.Committed, Version: v}
}

// PutStream implements storage.Streamer. The object is in memory, as all are.
func (b *Bucket) PutStream(ctx context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	fail := func(err error) storage.Write {
		return storage.Write{Err: fmt.Errorf("put %q in memory: %w", key, err)}
	}
	src, err := storage.NewSource(ctx, key, r, c)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = src.Close() }() // its error is that of a read
	data, err := io.ReadAll(src)
	if err != nil {
		return fail(err)
	}
	return b.PutIfAbsent(ctx, key, data)
}

// GetRange implements storage.Streamer.
func (b *Bucket) GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := storage.ValidateRange(key, offset, length); err != nil {
		return nil, err
	}
	o, err := b.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return &part{ctx, io.NewSectionReader(bytes.NewReader(o.Data), offset, length)}, nil
}

// part reads a part of an object for as long as its context lives.
type part struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (p *part) Read(into []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(into)
}

// Close implements io.Closer.
func (*part) Close() error { return nil }

// Stat implements storage.Streamer.
func (b *Bucket) Stat(ctx context.Context, key string) (storage.Stat, error) {
	o, err := b.Get(ctx, key)
	if err != nil {
		return storage.Stat{}, err
	}
	sum := storage.Sum(sha256.Sum256(o.Data))
	return storage.Stat{Size: int64(len(o.Data)), Sum: &sum}, nil
}

// List implements storage.Bucket. It lists the keys of one moment.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	b.mu.RLock()
	infos := make([]storage.Info, 0, len(b.objects))
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		if strings.HasPrefix(key, prefix) {
			infos = append(infos, storage.Info{Key: key, Size: int64(len(b.objects[key].Data))})
		}
	}
	b.mu.RUnlock()
	for _, info := range infos {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("list %q in memory: %w", prefix, err)
		}
		if !fn(info) {
			return nil
		}
	}
	return ctx.Err()
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := check(ctx, key); err != nil {
		return fmt.Errorf("delete %q from memory: %w", key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
	return nil
}

// Close implements storage.Bucket. The objects stay for other holders of the same
// bucket.
func (b *Bucket) Close() error { return nil }

func check(ctx context.Context, key string) error {
	return errors.Join(ctx.Err(), storage.ValidateKey(key))
}
