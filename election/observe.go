package election

import (
	"context"
	"errors"
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
			"%q: %w: %w: repair it (osqueue verify --repair), replace it with a backup, or move it away; "+
				"until then nothing is written",
			key, ErrUnreadable, err)
	}
	return Observed{Doc: doc, Raw: o.Data, Version: o.Version}, nil
}

// ExternalEditError reports that another writer changed the document under the present
// epoch. Observed is the present document: adopt it, then Rebase the fence on it. Doc is
// nil if the document was removed: there is nothing to adopt, and after Rebase the next
// Write creates it again.
type ExternalEditError struct{ Observed }

// Error returns the kind of the change.
func (e *ExternalEditError) Error() string {
	if e.Doc == nil {
		return "another writer removed the document"
	}
	return "another writer changed the document without a takeover"
}

// get reads an object. Absence is not an error.
func get(ctx context.Context, bucket storage.Bucket, key string) (o storage.Object, found bool, err error) {
	o, err = bucket.Get(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return storage.Object{}, false, nil
	case err != nil:
		return storage.Object{}, false, fmt.Errorf("read %q: %w", key, err)
	default:
		return o, true, nil
	}
}
