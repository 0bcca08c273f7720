package leader

import (
	"context"
	"errors"
	"fmt"

	"osqueue/election"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// ErrOrphan says why an empty cluster does not begin a queue next to the archive of
// another one.
var ErrOrphan = errors.New("the bucket has no " + DocumentKey + ", but an archive of one, and this cluster is empty: " +

	"make the newest state in the archive the document with `osqueue verify BUCKET-URL --repair`, " +
	"start a node that still has its disk, or give this cluster another bucket or prefix")

// ErrNotAdopted says why a cluster with state does not begin a document in a bucket that has
// none.
var ErrNotAdopted = errors.New("the bucket has no " + DocumentKey + ", and this node has not seen one there since its start, but its cluster has state: " +
	"is it the right bucket, and is it mounted? If so, run `osqueue bucket adopt BUCKET-URL`, and the leader writes its state there")

// mayCreate returns an error if there is no document, and this cluster must not begin one. A
// cluster without state does not if the bucket contains the archive of another cluster: its
// document was lost, and a new queue would replace it. A cluster with state does not if the
// bucket may be another one than it has used: this node has not seen its document there, and
// there is no marker. mayCreate makes up to two listings of one page, or a read, and only if
// there is no document.
func (l *Leader) mayCreate(ctx context.Context, a election.Action, me *election.Candidate) error {
	if a != election.Create || l.seen.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	if me.Lineage != "" {
		return l.mustBeMarked(ctx)
	}
	if me.Populated {
		return nil
	}
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

// mustBeMarked returns an error if the bucket has no marker.
func (l *Leader) mustBeMarked(ctx context.Context) error {
	o, err := l.cfg.Bucket.Get(ctx, storage.MarkerKey)
	switch {
	case err == nil && storage.MarkerID(o.Data) != "":
		return nil
	case err == nil || errors.Is(err, storage.ErrNotFound):
		l.setFence(FenceRefused, ErrNotAdopted.Error())
		return ErrNotAdopted
	}
	l.setFence(FenceStandby, err.Error())
	return fmt.Errorf("search for the marker: %w", err)
}

// meet reads the document until this node has seen the one of its cluster in the bucket. From
// then on the node knows that it is the right bucket, also if the document is removed.
func (l *Leader) meet(ctx context.Context) {
	for !l.seen.Load() {
		if l.meta().Lineage != "" {
			_, _ = l.readDocument(ctx) // notes what it sees
		}
		if l.seen.Load() || !sleep.For(ctx, l.cfg.StandbyRetry) {
			return
		}
	}
}

// note remembers whose document this node has seen.
func (b *base) note(doc *document.File) {
	if doc != nil && doc.Header != nil {
		b.noteVersion(doc.Header.Lineage, doc.Header.Epoch, doc.LSN())
	}
	switch lineage := b.meta().Lineage; {
	case doc == nil:
	case lineage != "" && doc.Lineage() == lineage:
		b.seen.Store(true)
	case doc.Header != nil && doc.Header.Cluster != b.do.ClusterID():
		b.rivals.Store(true)
	}
}

// mayBeRemoved reports whether a document of another cluster that this one has seen is gone for
// less than the broker timeout. A leader that lives writes it again within that time.
func (l *Leader) mayBeRemoved(a election.Action, heard election.Silence) bool {
	return a == election.Create && l.rivals.Load() && heard.Remaining() > 0
}
