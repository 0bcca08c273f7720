package leader

import (
	"context"
	"errors"
	"fmt"

	"osqueue/election"
	"osqueue/storage/archive"
)

// ErrOrphan says why an empty cluster does not begin a queue next to the archive of
// another one.
var ErrOrphan = errors.New("the bucket has no " + DocumentKey + ", but an archive of one, and this cluster is empty: " +

	"make the newest state in the archive the document with `osqueue verify BUCKET-URL --repair`, " +
	"start a node that still has its disk, or give this cluster another bucket or prefix")

// mayCreate returns an error if this cluster has no state and the bucket contains the
// archive of another cluster without its document. The document was lost, and a new queue
// would replace it. mayCreate makes up to two listings of one page, and only if there is
// no document.
func (l *Leader) mayCreate(ctx context.Context, a election.Action, me *election.Candidate) error {
	if a != election.Create || me.Populated {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	found, err := archive.HasArchive(ctx, l.cfg.Bucket)
	switch {
	case err != nil:
		l.setFence(FenceStandby, err.Error())
		return fmt.Errorf("search for an archive: %w", err)
	case found:
		l.setFence(FenceRefused, ErrOrphan.Error())
		return ErrOrphan
	}
	return nil
}
