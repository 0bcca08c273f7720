package gcs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.put(ctx, key, data, gcs.Conditions{DoesNotExist: true})
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	generation, ok := parseVersion(v)
	if !ok {
		return storage.Write{Outcome: storage.Conflict}
	}
	return b.put(ctx, key, data, gcs.Conditions{GenerationMatch: generation})
}

func (b *Bucket) put(ctx context.Context, key string, data []byte, condition gcs.Conditions) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, remote.WriteTimeout(len(data)))
	defer cancel()
	generation, err := b.send(ctx, key, data, condition)
	if err == nil && generation <= 0 {
		err = errNoGeneration
	}
	if err != nil {
		return b.failed(ctx, key, err)
	}
	return storage.Write{Outcome: storage.Committed, Version: formatVersion(generation)}
}

// send makes one request, and returns the generation that it made. If it fails before Close, the end of
// the context keeps the part that was written from becoming an object.
func (b *Bucket) send(ctx context.Context, key string, data []byte, condition gcs.Conditions) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := b.object(key).If(condition).Retryer(gcs.WithPolicy(gcs.RetryNever)).NewWriter(ctx)
	w.ChunkSize = 0
	w.KMSKeyName = b.key
	w.ContentType = remote.ContentType(key)
	w.CRC32C, w.SendCRC32C = crc32.Checksum(data, castagnoli), true
	if _, err := w.Write(data); err != nil {
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return w.Attrs().Generation, nil
}

func (b *Bucket) failed(ctx context.Context, key string, err error) storage.Write {
	outcome := storage.Unknown
	switch statusOf(err) {
	case http.StatusPreconditionFailed, http.StatusConflict:
		outcome = storage.Conflict
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = errors.Join(ctx.Err(), err) // the client hides what ended it
	}
	return storage.Write{Outcome: outcome, Err: b.explain("put", key, err)}
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := storage.ValidateKey(key); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, remote.WriteTimeout(0))
	defer cancel()
	if err := b.object(key).Delete(ctx); err != nil && !absent(err) {
		return b.explain("delete", key, err)
	}
	return nil
}

func formatVersion(generation int64) storage.Version {
	return storage.Version(strconv.FormatInt(generation, 10))
}

// parseVersion is the inverse of formatVersion and accepts nothing else.
func parseVersion(v storage.Version) (generation int64, ok bool) {
	g, err := strconv.ParseInt(string(v), 10, 64)
	return g, err == nil && g > 0 && formatVersion(g) == v
}

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
