package gcs

import (
	"context"
	"errors"
	"fmt"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	if err := storage.ValidateKey(key); err != nil {
		return storage.Object{}, err
	}
	o, err := b.read(ctx, key)
	if torn := (*tornError)(nil); errors.As(err, &torn) && ctx.Err() == nil {
		o, err = b.read(ctx, key)
	}
	switch {
	case err == nil:
		return o, nil
	case absent(err):
		return o, fmt.Errorf("get %q from %s: %w", key, b.location, storage.ErrNotFound)
	}
	return o, b.explain("get", key, err)
}

// tornError is a body that broke off or was changed on its way.
type tornError struct{ cause error }

func (e *tornError) Error() string { return e.cause.Error() }
func (e *tornError) Unwrap() error { return e.cause }

// read reads one generation: the client resumes a body where it broke off, and checks the CRC of the
// whole.
func (b *Bucket) read(ctx context.Context, key string) (storage.Object, error) {
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	r, err := b.object(key).NewReader(idle)
	if err != nil {
		return storage.Object{}, idle.Explain(err)
	}
	defer r.Close()
	if r.Attrs.Generation <= 0 {
		return storage.Object{}, errNoGeneration
	}
	data, err := remote.ReadBody(idle, r, r.Attrs.Size)
	if err != nil {
		return storage.Object{}, &tornError{err}
	}
	return storage.Object{Data: data, Version: formatVersion(r.Attrs.Generation)}, nil
}

var errNoGeneration = errors.New("the answer has no generation: is this a GCS endpoint?")

// List implements storage.Bucket.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	query := &gcs.Query{Prefix: b.location.Name(prefix), Projection: gcs.ProjectionNoACL}
	if err := query.SetAttrSelection([]string{"Name", "Size"}); err != nil {
		return b.explain("list", prefix, err)
	}
	if err := ctx.Err(); err != nil {
		return b.explain("list", prefix, err)
	}
	objects := b.handle.Objects(idle, query)
	last := ""
	for {
		attrs, err := objects.Next()
		if errors.Is(err, iterator.Done) {
			return nil
		}
		if err == nil && attrs.Name <= last {
			err = fmt.Errorf("the store lists %q after %q: its listing is not sorted, so it cannot be used", attrs.Name, last)
		}
		if err != nil {
			return b.explain("list", prefix, idle.Explain(err))
		}
		last = attrs.Name
		idle.Pause()
		key, ok := b.location.Key(attrs.Name)
		if ok && !fn(storage.Info{Key: key, Size: attrs.Size}) {
			return nil
		}
		idle.Moved()
	}
}
