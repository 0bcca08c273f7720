package blob

import (
	"context"
	"strings"

	"osqueue/storage"
)

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
