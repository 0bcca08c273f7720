package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Call is one operation on a decorated bucket.
type Call struct {
	Op    Op
	Key   string // of a listing the prefix, of a batch its first key
	Bytes int    // of the object that is offered for writing, or of the range that is asked for
}

// Answer is the outcome of a Call. The fields of other operations are zero.
type Answer struct {
	Object Object
	Write  Write
	Listed int // number of objects that a listing passed to its callback
	Err    error
	failed map[string]error // of a batch
	stat   Stat
	signed Signed
}

// Refuse returns the answer to a call that does not reach the store, or whose answer nobody waits for.
func (c Call) Refuse(why error) Answer {
	what := string(c.Op)
	if c.Op.IsWrite() {
		what = "put"
	}
	err := fmt.Errorf("%s %q: %w", what, c.Key, why)
	return Answer{Write: Write{Err: err}, Err: err}
}

// Decorated is a bucket all of whose calls pass through a function. It is safe for concurrent use
// if that is.
type Decorated struct {
	inner  Bucket
	around func(ctx context.Context, c Call, next func(context.Context) Answer) Answer
}

var (
	_ BatchDeleter = (*Decorated)(nil)
	_ Streamer     = (*Decorated)(nil)
	_ Signer       = (*Decorated)(nil)
)

// Decorate returns a bucket that calls around for each call. next makes the call to inner, with a context of
// around's choice; around calls it at most once, and may return before next does.
func Decorate(inner Bucket, around func(ctx context.Context, c Call, next func(context.Context) Answer) Answer) *Decorated {
	return &Decorated{inner, around}
}

// Get implements Bucket.
func (d *Decorated) Get(ctx context.Context, key string) (Object, error) {
	a := d.around(ctx, Call{Op: OpGet, Key: key}, func(ctx context.Context) Answer {
		o, err := d.inner.Get(ctx, key)
		return Answer{Object: o, Err: err}
	})
	return a.Object, a.Err
}

// PutIfAbsent implements Bucket.
func (d *Decorated) PutIfAbsent(ctx context.Context, key string, data []byte) Write {
	return d.around(ctx, Call{OpPutIfAbsent, key, len(data)}, func(ctx context.Context) Answer {
		w := d.inner.PutIfAbsent(ctx, key, data)
		return Answer{Write: w, Err: w.Err}
	}).Write
}

// PutIfMatch implements Bucket.
func (d *Decorated) PutIfMatch(ctx context.Context, key string, data []byte, v Version) Write {
	return d.around(ctx, Call{OpPutIfMatch, key, len(data)}, func(ctx context.Context) Answer {
		w := d.inner.PutIfMatch(ctx, key, data, v)
		return Answer{Write: w, Err: w.Err}
	}).Write
}

// List implements Bucket. It does not call fn after it has returned.
func (d *Decorated) List(ctx context.Context, prefix string, fn func(Info) bool) error {
	var mu sync.Mutex // held while fn runs
	over := false
	a := d.around(ctx, Call{Op: OpList, Key: prefix}, func(ctx context.Context) Answer {
		listed := 0
		err := d.inner.List(ctx, prefix, func(i Info) bool {
			mu.Lock()
			defer mu.Unlock()
			listed++
			return !over && fn(i)
		})
		return Answer{Listed: listed, Err: err}
	})
	mu.Lock()
	defer mu.Unlock()
	over = true
	return a.Err
}

// Delete implements Bucket.
func (d *Decorated) Delete(ctx context.Context, key string) error {
	return d.around(ctx, Call{Op: OpDelete, Key: key}, func(ctx context.Context) Answer { return Answer{Err: d.inner.Delete(ctx, key)} }).Err
}

// DeleteBatch implements BatchDeleter. A batch is one call.
func (d *Decorated) DeleteBatch(ctx context.Context, keys []string) map[string]error {
	batches, ok := d.inner.(BatchDeleter)
	if !ok || len(keys) == 0 {
		return DeleteEach(ctx, d, keys)
	}
	keys = slices.Clone(keys) // next may read them after the return
	a := d.around(ctx, Call{Op: OpDelete, Key: keys[0]}, func(ctx context.Context) (a Answer) {
		a.failed = batches.DeleteBatch(ctx, keys)
		for _, a.Err = range a.failed {
			break
		}
		return a
	})
	if a.Err != nil && a.failed == nil {
		a.failed = make(map[string]error, len(keys))
		for _, key := range keys {
			a.failed[key] = a.Err
		}
	}
	return a.failed
}

// PutStream implements Streamer.
func (d *Decorated) PutStream(ctx context.Context, key string, r io.Reader, c Content) Write {
	call := Call{OpPutStream, key, int(c.Size)}
	inner, ok := d.inner.(Streamer)
	if !ok {
		return call.Refuse(errors.ErrUnsupported).Write
	}
	guarded := &guard{r: r}
	defer guarded.end()
	return d.around(ctx, call, func(ctx context.Context) Answer {
		w := inner.PutStream(ctx, key, guarded, c)
		return Answer{Write: w, Err: w.Err}
	}).Write
}

// guard keeps a call that was left behind from its caller's reader.
type guard struct {
	mu sync.Mutex // held while r is read
	r  io.Reader
}

// Read implements io.Reader.
func (g *guard) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.r == nil {
		return 0, errOver
	}
	return g.r.Read(p)
}

func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.r = nil
}

// GetRange implements Streamer. Only the call passes through the function, and not the reads of its body.
func (d *Decorated) GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	call := Call{OpGetRange, key, int(length)}
	inner, ok := d.inner.(Streamer)
	if !ok {
		return nil, call.Refuse(errors.ErrUnsupported).Err
	}
	var mu sync.Mutex
	var body io.ReadCloser // that no one has taken or closed
	over := false
	a := d.around(ctx, call, func(ctx context.Context) Answer {
		got, err := inner.GetRange(ctx, key, offset, length)
		mu.Lock()
		defer mu.Unlock()
		if over && err == nil {
			return Answer{Err: errors.Join(errOver, got.Close())}
		}
		body = got
		return Answer{Err: err}
	})
	mu.Lock()
	defer mu.Unlock()
	over = true
	if a.Err != nil && body != nil { // the answer was lost
		_ = body.Close()
		body = nil
	}
	return body, a.Err
}

// Stat implements Streamer.
func (d *Decorated) Stat(ctx context.Context, key string) (Stat, error) {
	call := Call{Op: OpStat, Key: key}
	inner, ok := d.inner.(Streamer)
	if !ok {
		return Stat{}, call.Refuse(errors.ErrUnsupported).Err
	}
	a := d.around(ctx, call, func(ctx context.Context) Answer {
		s, err := inner.Stat(ctx, key)
		return Answer{stat: s, Err: err}
	})
	return a.stat, a.Err
}

// SignPut implements Signer.
func (d *Decorated) SignPut(ctx context.Context, key string, c Content, valid time.Duration) (Signed, error) {
	return d.sign(ctx, Call{OpSignPut, key, int(c.Size)}, func(ctx context.Context, s Signer) (Signed, error) {
		return s.SignPut(ctx, key, c, valid)
	})
}

// SignGet implements Signer.
func (d *Decorated) SignGet(ctx context.Context, key string, valid time.Duration) (Signed, error) {
	return d.sign(ctx, Call{Op: OpSignGet, Key: key}, func(ctx context.Context, s Signer) (Signed, error) {
		return s.SignGet(ctx, key, valid)
	})
}

func (d *Decorated) sign(ctx context.Context, call Call, sign func(context.Context, Signer) (Signed, error)) (Signed, error) {
	inner, ok := d.inner.(Signer)
	if !ok {
		return Signed{}, call.Refuse(errors.ErrUnsupported).Err
	}
	a := d.around(ctx, call, func(ctx context.Context) Answer {
		s, err := sign(ctx, inner)
		return Answer{signed: s, Err: err}
	})
	return a.signed, a.Err
}

// Close implements Bucket. It does not wait for calls that were left behind.
func (d *Decorated) Close() error { return d.inner.Close() }
