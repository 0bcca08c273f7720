package election

import (
	"context"
	"fmt"

	"osqueue/storage"
	"osqueue/storage/document"
)

// Observed is a document that was read. The zero value means that there is no document.
type Observed struct {
	Doc     *document.File
	Raw     []byte
	Version storage.Version
}

// Read reads the document at key. If the document cannot be decoded, the error wraps
// ErrUnreadable, and no writer may overwrite it.
func Read(ctx context.Context, bucket storage.Bucket, key string) (Observed, error) {
	o, found, err := get(ctx, bucket, key)
	if err != nil || !found {
		return Observed{}, err
	}
	return observe(key, o)
}

func observe(key string, o storage.Object) (Observed, error) {
	doc, err := document.Decode(o.Data)
	if err != nil {
		return Observed{}, fmt.Errorf(
			"%q: %w: %w: nothing is written until it is repaired, replaced by a backup, or moved away",
			key, ErrUnreadable, err)
	}
	return Observed{Doc: doc, Raw: o.Data, Version: o.Version}, nil
}
