package cluster

import (
	"context"
	"time"

	"osqueue/cluster/snapshot"
	"osqueue/storage/archive"
	"osqueue/storage/probe"
	"osqueue/storage/queuefile"
)

// collectMost bounds how many objects one round removes of each kind. A round also
// ends after Config.CollectInterval.
const collectMost = 1_000_000

// otherClusterKept is how long after its last upload the snapshots of another
// cluster are removed.
const otherClusterKept = 7 * 24 * time.Hour

// snapshotsKept is how many of raft's snapshots the bucket keeps for nodes to come.
const snapshotsKept = 2

// collect removes from the bucket, now and then, what nobody can need any more.
// Which that is follows from the document as it stands there.
func (r *reign) collect(ctx context.Context) {
	var probes map[string]bool
	var copies archive.Copies
	for sleep(ctx, r.node.cfg.CollectInterval) {
		if r.flusher.Failing() != "" {
			continue
		}
		var err error
		if probes, err = probe.Collect(ctx, r.node.cfg.Bucket, probes); err != nil && ctx.Err() == nil {
			r.log.Warn("the bucket could not be cleaned up; it is tried again", "error", err)
		}
		if err := r.collectOnce(ctx, &copies); err != nil && ctx.Err() == nil {
			r.log.Warn("the bucket could not be cleaned up; it is tried again", "error", err)
		}
	}
}

func (r *reign) collectOnce(ctx context.Context, copies *archive.Copies) error {
	ctx, cancel := context.WithTimeout(ctx, r.node.cfg.CollectInterval)
	defer cancel()
	seen, err := r.node.readDocument(ctx)
	if err != nil || !r.alive(seen.Doc) {
		return err // the next flush finds out what that means
	}
	before := time.UnixMilli(r.clock.now()).Add(-r.node.cfg.PITRWindow)
	kept, more, err := copies.Read(ctx, r.node.cfg.Bucket)
	if err != nil {
		return err
	}
	if more {
		r.log.Warn("there are too many copies of documents: the objects of some are removed when they are past the window; "+
			"remove copies that you do not need", "prefix", archive.CopyPrefix)
	}
	deleted, err := archive.Collect(ctx, r.node.cfg.Bucket, seen.Doc, before, collectMost, r.stillAlive, kept...)
	if deleted > 0 {
		r.log.Debug("removed objects that are past the window", "objects", deleted, "before", before)
	}
	if err != nil {
		return err
	}
	if _, err = snapshot.Collect(ctx, r.node.cfg.Bucket, r.node.clusterID(), snapshotsKept, collectMost); err != nil {
		return err
	}
	gone := r.clock.now() - max(otherClusterKept, r.node.cfg.PITRWindow).Milliseconds()
	_, err = snapshot.CollectOthers(ctx, r.node.cfg.Bucket, r.node.clusterID(), gone, collectMost)
	return err
}

// alive reports whether a document is this reign's, with a sign of life that nobody
// takes for that of a dead broker yet.
func (r *reign) alive(doc *queuefile.Document) bool {
	return doc != nil && doc.Header != nil && doc.Header.Epoch == r.fence.Epoch() && !doc.Overtaken &&
		r.clock.now()-doc.BrokerHeartbeat < (r.node.cfg.BrokerTimeout+doc.Promise()).Milliseconds()
}

// stillAlive looks at the document again: this node may have stood still for long.
func (r *reign) stillAlive(ctx context.Context) (bool, error) {
	seen, err := r.node.readDocument(ctx)
	return err == nil && r.alive(seen.Doc), err
}
