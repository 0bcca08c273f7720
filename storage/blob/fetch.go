package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/cenkalti/backoff/v5"

	"osqueue/storage"
)

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

// fetchPart reads a part of the blob with that prefix.
func fetchPart(ctx context.Context, bucket storage.Bucket, prefix string, i int, p Part) ([]byte, error) {
	data, err := Fetch(ctx, bucket, partKey(prefix, i), func(data []byte) ([]byte, error) {
		if int64(len(data)) != p.Bytes {
			return nil, fmt.Errorf("the part has %d bytes; expected %d", len(data), p.Bytes)
		}
		if sha256.Sum256(data) != p.Sum {
			return nil, errors.New("checksum mismatch of the part")
		}
		return data, nil
	})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		err = fmt.Errorf("read %q: %w: %w", partKey(prefix, i), ErrDamaged, err)
	case err != nil:
		err = fmt.Errorf("read %q: %w", partKey(prefix, i), err)
	}
	return data, err
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

// CheckPart reads the i-th part and compares its size and checksum with the manifest's. The
// error wraps ErrDamaged if they differ or the part is missing; others are the store's.
func (m *Manifest) CheckPart(ctx context.Context, bucket storage.Bucket, i int) error {
	_, err := fetchPart(ctx, bucket, strings.TrimSuffix(m.Key, manifestName), i, m.Parts[i])
	return err
}
