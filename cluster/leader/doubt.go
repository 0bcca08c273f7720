package leader

import (
	"context"
	"fmt"
	"time"

	"osqueue/election"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// A program that removes the document, or puts an older copy of the bucket back, may have removed the
// objects that the next document names as well. So the leader looks for them before it writes the
// document again, and for some time after that: perhaps the removal has not ended.

const (
	// doubtLooks is the number of checks of the archive that follow a doubt, and the
	// beginning of a leader term, without the pause of ArchiveCheck.
	doubtLooks = 10
	termLooks  = 1
	// doubtPause is the pause before each of them.
	doubtPause = time.Second
)

// doubt looks for the objects that the next version of the document names. If one is missing, no
// write counts as written to the bucket until a new checkpoint replaces it. The flusher calls
// doubt before it overwrites a change.
func (t *Term) doubt(ctx context.Context) error {
	root := t.builder.Last().Archive
	found, err := archive.NewAudit(t.cfg.Bucket).Missing(ctx, root)
	if err != nil {
		return fmt.Errorf("look for the archive: %w", err)
	}
	if found != nil {
		e := archiveError(found)
		e.at = root.LSN()
		t.damage.Store(e)
	}
	select {
	case t.doubted <- struct{}{}:
	default:
	}
	return nil
}

func archiveError(f *archive.Finding) *ArchiveError {
	return &ArchiveError{Key: f.Key, Cause: fmt.Errorf("object %q: %w", f.Key, f.Err), named: f.Named}
}

// isIncomplete reports whether the document with which this leader continues is older than a version
// that was certainly written, and names an object that is gone: an old copy was put back.
func (l *Leader) isIncomplete(ctx context.Context, doc *document.File) (bool, error) {
	if doc == nil || doc.Header == nil || !l.outdated(doc.Header) {
		return false, nil
	}
	found, err := archive.NewAudit(l.cfg.Bucket).Missing(ctx, doc.Archive)
	if found == nil || err != nil {
		return false, err
	}
	l.log.Warn("the old copy of the document names an object that is gone; writing a new checkpoint", "key", found.Key, "reason", found.Err)
	return true, nil
}

const adoptedOld = "the archive has states that are newer than the document: the document is an older copy, or its leader died while it " +
	"wrote; rebuild the newest one with `osqueue restore --from BUCKET-URL --at LSN --to ANOTHER-BUCKET-URL`"

// noteDoubts keeps a copy of a legacy document that this cluster is about to adopt, and warns of a
// document that may not be what its leader wrote last.
func (l *Leader) noteDoubts(ctx context.Context, seen election.Observed) error {
	if seen.Doc.Header == nil {
		return l.keepCopy(ctx, seen.Raw, adoptedLegacy)
	}
	lineage, lsn := seen.Doc.Lineage(), seen.Doc.LSN()
	newest, err := archive.Newest(ctx, l.cfg.Bucket, lineage)
	if err != nil {
		return fmt.Errorf("look for newer states: %w", err)
	}
	if newest.Compare(lsn) > 0 {
		l.log.Warn(adoptedOld, "document", lsn, "LSN", newest)
	}
	return nil
}
