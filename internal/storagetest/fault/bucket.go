package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing/iotest"

	"osqueue/internal/sleep"
	"osqueue/storage"
)

// Bucket is a storage.Bucket with faults. Close it to end late deliveries.
type Bucket struct {
	inner storage.Bucket

	mu         sync.Mutex
	random     *rand.Rand
	injections []*Injection

	closing    context.Context
	close      context.CancelFunc
	deliveries sync.WaitGroup
}

var (
	_ storage.Bucket   = (*Bucket)(nil)
	_ storage.Streamer = (*Bucket)(nil)
)

// New decorates inner. The seed decides which operations are hit by rules with
// a probability, given the same order of operations.
func New(inner storage.Bucket, seed uint64) *Bucket {
	closing, cancel := context.WithCancel(context.Background())
	return &Bucket{inner: inner, random: rand.New(rand.NewPCG(seed, 0)), closing: closing, close: cancel}
}

// Inject adds a rule behind those that are there.
func (b *Bucket) Inject(r Rule) *Injection {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := newInjection(r)
	b.injections = append(b.injections, i)
	return i
}

// pick returns the first rule that hits this operation, or nil.
func (b *Bucket) pick(op storage.Op, key string) *Injection {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.injections {
		if i.fires(op, key, b.random.Float64) {
			return i
		}
	}
	return nil
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	i := b.pick(storage.OpGet, key)
	if err := i.before(ctx, storage.OpGet, key); err != nil {
		return storage.Object{}, err
	}
	o, err := b.inner.Get(ctx, key)
	if err == nil && i != nil {
		o.Data = i.spoil(o.Data)
	}
	return o, err
}

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.write(ctx, storage.OpPutIfAbsent, key, data, func(ctx context.Context, data []byte) storage.Write {
		return b.inner.PutIfAbsent(ctx, key, data)
	})
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return b.write(ctx, storage.OpPutIfMatch, key, data, func(ctx context.Context, data []byte) storage.Write {
		return b.inner.PutIfMatch(ctx, key, data, v)
	})
}

func (b *Bucket) write(
	ctx context.Context, op storage.Op, key string, data []byte, put func(context.Context, []byte) storage.Write,
) storage.Write {
	i := b.pick(op, key)
	if i == nil {
		return put(ctx, data)
	}
	return b.hit(ctx, i, op, key, data, put)
}

func (b *Bucket) hit(
	ctx context.Context, i *Injection, op storage.Op, key string, data []byte, put func(context.Context, []byte) storage.Write,
) storage.Write {
	switch i.rule.Kind {
	case LoseAnswer:
		w := put(context.WithoutCancel(ctx), data) // it reaches the store, whatever becomes of the caller
		return storage.Write{Err: fmt.Errorf("%w (the store had answered %s)", i.lost(ctx, op, key), w.Outcome)}
	case DeliverLate:
		b.hold(i, data, put)
		return storage.Write{Err: i.err(op, key)}
	case Reject:
		return storage.Write{Outcome: storage.Conflict, Err: i.err(op, key)}
	case Slow:
		sleep.For(ctx, i.transfer(len(data)))
	}
	if err := i.before(ctx, op, key); err != nil {
		return storage.Write{Err: err}
	}
	return put(ctx, data)
}

// PutStream implements storage.Streamer. A stream that is hit is read into memory first.
func (b *Bucket) PutStream(ctx context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	i := b.pick(storage.OpPutStream, key)
	if i == nil {
		return b.streams().PutStream(ctx, key, r, c)
	}
	data, err := io.ReadAll(io.LimitReader(r, c.Size))
	if err != nil {
		return storage.Write{Err: fmt.Errorf("%w: %w", storage.ErrContent, err)}
	}
	return b.hit(ctx, i, storage.OpPutStream, key, data, func(ctx context.Context, data []byte) storage.Write {
		return b.streams().PutStream(ctx, key, bytes.NewReader(data), c)
	})
}

// GetRange implements storage.Streamer.
func (b *Bucket) GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	i := b.pick(storage.OpGetRange, key)
	if err := i.before(ctx, storage.OpGetRange, key); err != nil {
		return nil, err
	}
	body, err := b.streams().GetRange(ctx, key, offset, length)
	if err != nil || i == nil {
		return body, err
	}
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	spoiled := io.Reader(bytes.NewReader(i.spoil(data)))
	if i.rule.Kind == Truncate {
		spoiled = io.MultiReader(spoiled, iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return io.NopCloser(spoiled), nil
}

// Stat implements storage.Streamer.
func (b *Bucket) Stat(ctx context.Context, key string) (storage.Stat, error) {
	if err := b.pick(storage.OpStat, key).before(ctx, storage.OpStat, key); err != nil {
		return storage.Stat{}, err
	}
	return b.streams().Stat(ctx, key)
}

// streams returns the inner bucket, which must have streams if they are used.
func (b *Bucket) streams() storage.Streamer { return b.inner.(storage.Streamer) }

// List implements storage.Bucket.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	if err := b.pick(storage.OpList, prefix).before(ctx, storage.OpList, prefix); err != nil {
		return err
	}
	return b.inner.List(ctx, prefix, fn)
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := b.pick(storage.OpDelete, key).before(ctx, storage.OpDelete, key); err != nil {
		return err
	}
	return b.inner.Delete(ctx, key)
}

// Close drops the late writes that are still held, waits for those under way,
// lets stalled operations go, and closes the inner bucket.
func (b *Bucket) Close() error {
	b.close()
	b.deliveries.Wait()
	b.mu.Lock()
	injections := b.injections
	b.mu.Unlock()
	for _, i := range injections {
		i.mu.Lock()
		i.held = nil
		i.mu.Unlock()
		i.Release(context.Background())
	}
	return b.inner.Close()
}

// before does what happens to an operation before the store sees it. An error
// means that the store does not see it at all.
func (i *Injection) before(ctx context.Context, op storage.Op, key string) error {
	if i == nil {
		return nil
	}
	switch i.rule.Kind {
	case LoseRequest:
		return i.lost(ctx, op, key)
	case Throttle:
		return fmt.Errorf("%w: %w", storage.ErrThrottled, i.err(op, key))
	case Slow:
		sleep.For(ctx, i.rule.Delay)
		return ctx.Err()
	case Stall:
		select {
		case <-i.released:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", i.err(op, key), ctx.Err())
		}
	}
	return nil
}

// lost keeps the caller waiting for an answer and then says that there is none.
func (i *Injection) lost(ctx context.Context, op storage.Op, key string) error {
	if sleep.For(ctx, i.rule.Delay); ctx.Err() != nil {
		return fmt.Errorf("%w: %w", i.err(op, key), ctx.Err())
	}
	return i.err(op, key)
}

func (i *Injection) err(op storage.Op, key string) error {
	return fmt.Errorf("%w: %s hit %s %q", ErrInjected, i.rule.Kind, op, key)
}

const garbage = "<html><head><title>502 Bad Gateway</title></head><body>try again later</body></html>\n"

// spoil returns what the reader gets instead of data.
func (i *Injection) spoil(data []byte) []byte {
	switch i.rule.Kind {
	case Garble:
		return []byte(garbage)
	case Truncate:
		return data[:len(data)/2]
	default:
		return data
	}
}
