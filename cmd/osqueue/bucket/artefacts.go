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
	if v.ArtefactCount() == 0 {
		return 0, nil, nil
	}
	from, err := b.read(ctx, r.from)
	if err != nil {
		return 0, nil, err
	}
	copied, missing, err = archive.CopyArtefacts(ctx, from, to, v)
	for _, key := range missing {
		if err := view.WritePlain(r.g.Err, fmt.Sprintf("%s has no %s: the artefact of a job is missing\n", r.from, key)); err != nil {
			return copied, missing, err
		}
	}
	return copied, missing, err
}
