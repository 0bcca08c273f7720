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

// fetch reads an object and passes it to check. An error of check becomes one that
// wraps ErrDamaged.
func fetch(ctx context.Context, bucket storage.Bucket, key string, check func(data []byte) error) ([]byte, error) {
	var data []byte
	bad := 0
	err := retry(ctx, triesToReach, func() error {
		o, err := bucket.Get(ctx, key)
		switch {
		case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrInvalidKey):
			return backoff.Permanent(err)
		case err != nil:
			return err
		}
		if err := check(o.Data); err != nil {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
			if bad++; bad >= triesToCheck {
				err = backoff.Permanent(err)
			}
			return err
		}
		data = o.Data
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	return data, nil
}

// fetchPart reads a part of the blob with that prefix.
func fetchPart(ctx context.Context, bucket storage.Bucket, prefix string, i int, p Part) ([]byte, error) {
	data, err := fetch(ctx, bucket, partKey(prefix, i), func(data []byte) error {
		if int64(len(data)) != p.Bytes {
			return fmt.Errorf("the part has %d bytes; expected %d", len(data), p.Bytes)
		}
		if sha256.Sum256(data) != p.Sum {
			return errors.New("checksum mismatch of the part")
		}
		return nil
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return data, err
}

// Stat reads the manifest with that key. want is its sum as the caller remembers
// it; nil if it does not. The error wraps storage.ErrNotFound if there is no
// such blob, ErrDamaged if it is not the one that was meant.
func Stat(ctx context.Context, bucket storage.Bucket, manifestKey string, want *Sum) (*Manifest, error) {
	var m *Manifest
	_, err := fetch(ctx, bucket, manifestKey, func(data []byte) (err error) {
		if want != nil && sha256.Sum256(data) != *want {
			return errors.New("checksum mismatch of the manifest")
		}
		m, err = decodeManifest(data)
		return err
	})
	if err != nil {
		return nil, err
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
