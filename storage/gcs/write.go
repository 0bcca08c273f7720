package gcs

import (
	"context"
	"errors"
	"hash/crc32"
	"net/http"
	"strconv"

	gcs "cloud.google.com/go/storage"

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
