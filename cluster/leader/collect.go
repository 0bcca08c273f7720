package leader

import (
	"context"
	"time"

	"osqueue/cluster/snapshot"
	"osqueue/internal/sleep"
	"osqueue/storage/archive"
	"osqueue/storage/probe"
	"osqueue/storage/queuefile"
)

// collectMost is the largest number of objects of each kind that one round removes. A
// round also ends after Config.CollectInterval.
const collectMost = 1_000_000

// otherClusterKept is how long after their last upload the snapshots of another cluster
// are kept.
const otherClusterKept = 7 * 24 * time.Hour

// snapshotsKept is the number of raft's snapshots that the bucket keeps for new nodes.
const snapshotsKept = 2

// collect removes objects that are not needed any more from the bucket, every
// Config.CollectInterval, until ctx ends. The document in the bucket says which objects
// are needed.
func (r *Term) collect(ctx context.Context) {
	var probes map[string]bool
	var copies archive.Copies
	for sleep.For(ctx, r.cfg.CollectInterval) {
		if r.flusher.Failing() != "" {
			continue
		}
		var err error
		if probes, err = probe.Collect(ctx, r.cfg.Bucket, probes); err != nil && ctx.Err() == nil {
			r.log.Warn("the bucket could not be cleaned up; it is tried again", "error", err)
		}
		if err := r.collectOnce(ctx, &copies); err != nil && ctx.Err() == nil {
			r.log.Warn("the bucket could not be cleaned up; it is tried again", "error", err)
		}
	}
}

func (r *Term) collectOnce(ctx context.Context, copies *archive.Copies) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CollectInterval)
	defer cancel()
	seen, err := r.readDocument(ctx)
	if err != nil || !r.alive(seen.Doc) {
		return err // the next flush detects the lost document
	}
	before := time.UnixMilli(r.clock.now()).Add(-r.cfg.PITRWindow)
	kept, more, err := copies.Read(ctx, r.cfg.Bucket)
	if err != nil {
		return err
	}
	if more {
		r.log.Warn("there are too many copies of documents: the objects of some are removed when they are past the window; "+
			"remove copies that you do not need", "prefix", archive.CopyPrefix)
	}
	deleted, err := archive.Collect(ctx, r.cfg.Bucket, seen.Doc, before, collectMost, r.stillAlive, kept...)
	if deleted > 0 {
		r.log.Debug("removed objects that are past the window", "objects", deleted, "before", before)
	}
	if err != nil {
		return err
	}
	if _, err = snapshot.Collect(ctx, r.cfg.Bucket, r.do.ClusterID(), snapshotsKept, collectMost); err != nil {
		return err
	}
	gone := r.clock.now() - max(otherClusterKept, r.cfg.PITRWindow).Milliseconds()
	_, err = snapshot.CollectOthers(ctx, r.cfg.Bucket, r.do.ClusterID(), gone, collectMost)
	return err
}

// alive reports whether a document belongs to this leader term and its heartbeat is so
// recent that no other broker can have taken it over.
func (r *Term) alive(doc *queuefile.Document) bool {
	return doc != nil && doc.Header != nil && doc.Header.Epoch == r.fence.Epoch() && !doc.Overtaken &&
		r.clock.now()-doc.BrokerHeartbeat < (r.cfg.BrokerTimeout+doc.Promise()).Milliseconds()
}

// stillAlive reads the document again: this node may have been paused for long.
func (r *Term) stillAlive(ctx context.Context) (bool, error) {
	seen, err := r.readDocument(ctx)
	return err == nil && r.alive(seen.Doc), err
}
