package bucket

import (
	"context"
	"fmt"

	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// copyArtefacts copies the artefacts of a state to the place where it is restored.
func (r *restoration) copyArtefacts(ctx context.Context, b *buckets, to storage.Bucket, v *fsm.View) (copied int, missing []string, err error) {
	from, err := b.read(ctx, r.from)
	if err != nil {
		return 0, nil, err
	}
	copied, missing, err = archive.CopyArtefacts(ctx, from, to, v)
	for _, key := range missing {
		if err := view.WritePlain(r.g.Err, missingText(r.from, key)); err != nil {
			return copied, missing, err
		}
	}
	return copied, missing, err
}

// missingText says that a bucket lacks an artefact.
func missingText(url, key string) string {
	return fmt.Sprintf("%s: the artefact %s of a job is missing or damaged\n", url, key)
}
