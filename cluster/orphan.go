package cluster

import (
	"context"
	"errors"
	"fmt"

	"osqueue/election"
	"osqueue/storage/archive"
)

// errOrphan is why an empty cluster does not begin a queue beside the archive of another.
var errOrphan = errors.New("the bucket has no " + DocumentKey + ", but an archive of one, and this cluster is empty: " +
	"make the newest state in the archive the document with `osqueue verify BUCKET-URL --repair`, " +
	"start a node that still has its disk, or give this cluster another bucket or prefix")

// mayCreate refuses to let a cluster without a state begin a new queue where the archive of
// another one stands: its document was lost, and the new queue would take its place. It
// makes up to two listings of a page, when there is no document.
func (n *Node) mayCreate(ctx context.Context, a election.Action, me *election.Candidate) error {
	if a != election.Create || me.Populated {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	found, err := archive.HasArchive(ctx, n.cfg.Bucket)
	switch {
	case err != nil:
		n.setFence(FenceStandby, err.Error())
		return fmt.Errorf("look for an archive: %w", err)
	case found:
		n.setFence(FenceRefused, errOrphan.Error())
		return errOrphan
	}
	return nil
}
