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
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	o, err := b.read(idle, key)
	switch {
	case err == nil:
		return o, nil
	case absent(err):
		return o, fmt.Errorf("get %q from %s: %w", key, b.location, storage.ErrNotFound)
	}
	return o, b.explain("get", key, idle.Explain(err))
}

// read reads one generation: the client resumes a body that breaks off where
// it broke off, and checks the CRC of the whole.
func (b *Bucket) read(idle *remote.Idle, key string) (storage.Object, error) {
	r, err := b.object(key).NewReader(idle)
	if err != nil {
		return storage.Object{}, err
	}
	defer r.Close()
	if r.Attrs.Generation <= 0 {
		return storage.Object{}, errors.New("the answer has no generation: is this a GCS endpoint?")
	}
	data, err := remote.ReadBody(idle, r, r.Attrs.Size)
	if err != nil {
		return storage.Object{}, err
	}
	return storage.Object{Data: data, Version: formatVersion(r.Attrs.Generation)}, nil
}

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
			err = fmt.Errorf("the store lists %q after %q: it does not sort", attrs.Name, last)
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
