package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"osqueue/storage"
)

// ErrTaken is wrapped when an object of the blob's is there already with other
// content: each attempt to write needs a prefix of its own.
var ErrTaken = errors.New("another object has that key")

// Put writes an object under a key that no other object has, and returns nil once the object is
// certain to be in the bucket. If the result is unknown, or a rate limit refused the request, Put
// tries again with the same key and bytes until ctx ends: an attempt that arrives late does no
// harm. After an error the object may exist, or exist later, unless the error wraps ErrTaken.
func Put(ctx context.Context, bucket storage.Bucket, key string, data []byte) error {
	if err := storage.ValidateWrite(key, data); err != nil {
		return fmt.Errorf("write %q: %w", key, err)
	}
	foreign := 0
	err := Retry(ctx, Forever, func() error {
		w := bucket.PutIfAbsent(ctx, key, data)
		switch {
		case w.Outcome == storage.Committed:
			return nil
		case errors.Is(w.Err, storage.ErrInvalidKey):
			return backoff.Permanent(w.Err)
		case w.Outcome == storage.Unknown:
			return fmt.Errorf("the outcome of the write is unknown: %w", w.Err)
		}
		err := compare(ctx, bucket, key, data)
		if errors.Is(err, ErrTaken) {
			if foreign++; foreign >= triesToCheck {
				return backoff.Permanent(err)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write %q: %w", key, err)
	}
	return nil
}

// compare returns nil if the object has that content: then it is a write of ours
// whose answer was lost.
func compare(ctx context.Context, bucket storage.Bucket, key string, data []byte) error {
	o, err := bucket.Get(ctx, key)
	switch {
	case err != nil: // also if it is not there: some stores refuse when two write at once
		return fmt.Errorf("read the existing object: %w", err)
	case !bytes.Equal(o.Data, data):
		return ErrTaken
	default:
		return nil
	}
}

// Pauses between attempts: they grow from the first to the long one.
const (
	firstPause = 20 * time.Millisecond
	longPause  = 5 * time.Second
)

// How often a read is tried before the store counts as away, and how often what came
// back is looked at before it counts as damaged.
const (
	triesToReach = 6
	triesToCheck = 3
)

// Forever is the number of tries of what only the context ends.
const Forever = 0

// Retry calls try until it succeeds, has failed so many times or for good (with
// backoff.Permanent), or ctx ends.
func Retry(ctx context.Context, tries uint, try func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, longPause
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = try()
		return struct{}{}, last
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(last, err):
		return last
	default:
		return fmt.Errorf("%w; the error before: %w", err, last)
	}
}

// ErrDamaged is wrapped for a blob that is not what its manifest says, or has a
// manifest that is none or not the one that was meant.
var ErrDamaged = errors.New("the blob is damaged")

// Fetch reads an object and parses it with open. It reads it again if the store does not answer, and
// if open fails, because the damage may be on the way. An error of open becomes one that wraps
// ErrDamaged.
func Fetch[T any](ctx context.Context, bucket storage.Bucket, key string, open func(object []byte) (T, error)) (value T, err error) {
	bad := 0
	err = Retry(ctx, triesToReach, func() error {
		o, err := bucket.Get(ctx, key)
		switch {
		case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrInvalidKey):
			return backoff.Permanent(err)
		case err != nil:
			return err
		}
		if value, err = open(o.Data); err == nil {
			return nil
		}
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
		if bad++; bad >= triesToCheck {
			err = backoff.Permanent(err)
		}
		return err
	})
	return value, err
}

// Stat reads the manifest with that key. want is its sum as the caller remembers
// it; nil if it does not. The error wraps storage.ErrNotFound if there is no
// such blob, ErrDamaged if it is not the one that was meant.
func Stat(ctx context.Context, bucket storage.Bucket, manifestKey string, want *Sum) (*Manifest, error) {
	m, err := Fetch(ctx, bucket, manifestKey, func(data []byte) (*Manifest, error) {
		if want != nil && sha256.Sum256(data) != *want {
			return nil, errors.New("checksum mismatch of the manifest")
		}
		return decodeManifest(data)
	})
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", manifestKey, err)
	}
	m.Key = manifestKey
	return m, nil
}

// PartKeys returns the keys of the parts, in their order. Key must be set.
func (m *Manifest) PartKeys() []string {
	prefix := strings.TrimSuffix(m.Key, manifestName)
	keys := make([]string, len(m.Parts))
	for i := range keys {
		keys[i] = partKey(prefix, i)
	}
	return keys
}

// Check compares the bytes of a part with the manifest.
func (p *Part) Check(data []byte) error {
	if int64(len(data)) != p.Bytes {
		return fmt.Errorf("the part has %d bytes; expected %d", len(data), p.Bytes)
	}
	if sha256.Sum256(data) != p.Sum {
		return errors.New("checksum mismatch of the part")
	}
	return nil
}

// part reads the i-th part.
func (m *Manifest) part(ctx context.Context, bucket storage.Bucket, i int) ([]byte, error) {
	key := partKey(strings.TrimSuffix(m.Key, manifestName), i)
	data, err := Fetch(ctx, bucket, key, func(data []byte) ([]byte, error) { return data, m.Parts[i].Check(data) })
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		err = fmt.Errorf("read %q: %w", key, err)
	}
	return data, err
}
