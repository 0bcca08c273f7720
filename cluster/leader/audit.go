package leader

import (
	"context"
	"fmt"
	"time"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/probe"
)

// A document is useless without the objects that it names. If an object is removed,
// or a disk loses it, nothing that the leader writes later would detect that. So the
// active leader checks the objects: a listing every ArchiveCheck finds missing objects,
// and reading all of them once every ArchiveRead finds damaged ones. A finding is shown
// in the log, as an event and in Status. It makes WaitFlushed fail. The leader repairs
// the archive with a new checkpoint of its state.

const (
	// healInterval is the time between two tests whether the document has the new
	// checkpoint.
	healInterval = 500 * time.Millisecond
	// auditTimeout bounds the requests of one check.
	auditTimeout = time.Minute
)

// audit checks the objects that the document names, every ArchiveCheck, until ctx ends.
func (t *Term) audit(ctx context.Context) {
	a := archive.NewAudit(t.cfg.Bucket)
	looks := 0
	if t.cfg.ArchiveCheck > 0 {
		looks = termLooks
	}
	for t.rest(ctx, &looks) {
		d := t.written.Load()
		if e := t.damage.Load(); e != nil && d != nil && !d.names(e.named) && d.root.LSN().Compare(e.at) >= 0 {
			t.damage.Store(nil) // doubt has found it, and a new checkpoint is written
		}
		if d != nil && t.unhealed {
			t.healEarlier(ctx, d)
		}
		if d == nil {
			continue
		}
		found, err := t.look(ctx, a, d.root)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.log.Debug("cannot check the archive", "error", err)
		case found != nil && t.written.Load().names(found.Named): // else the document no longer needs the object
			t.heal(ctx, found)
		}
	}
}

// rest waits until the next check is due, or until ctx ends. looks is the number of those that
// follow soon.
func (t *Term) rest(ctx context.Context, looks *int) bool {
	interval := t.cfg.ArchiveCheck
	if *looks > 0 {
		*looks--
		interval = doubtPause
	}
	var due <-chan time.Time
	if interval > 0 {
		due = time.After(interval)
	}
	select {
	case <-ctx.Done():
		return false
	case <-t.doubted:
		*looks = doubtLooks
		return true
	case <-due:
		return true
	}
}

// look makes one check of an archive: it lists the objects, and reads the share of them
// that is due.
func (t *Term) look(ctx context.Context, a *archive.Audit, root *document.Archive) (*archive.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	found, err := a.Missing(ctx, root)
	if found != nil || err != nil || t.cfg.ArchiveRead <= 0 {
		return found, err
	}
	cfg := &t.cfg
	share := float64(a.Objects(root)) * float64(cfg.ArchiveCheck) / float64(cfg.ArchiveRead)
	t.unread += share
	n := int(t.unread)
	t.unread -= float64(n)
	return a.Read(ctx, root, n)
}

// heal reports a finding, and makes the flusher write a new checkpoint. It returns when
// the document no longer needs the object, or when ctx ends.
func (t *Term) heal(ctx context.Context, found *archive.Finding) {
	e := archiveError(found)
	t.damage.Store(e)
	t.log.Error("an object that the document needs is missing or damaged; a new checkpoint is written", "key", e.Key, "reason", found.Err)
	t.tell(ctx, fsm.AnnounceBucketDamaged, e.Cause.Error())
	if !t.renew(ctx, e.named) {
		return
	}
	t.damage.Store(nil)
	t.log.Info("a new checkpoint has replaced the damaged archive", "key", e.Key)
	t.tell(ctx, fsm.AnnounceBucketHealed, fmt.Sprintf("a new checkpoint has replaced object %q", e.Key))
}

// healEarlier replaces the archive d, in which an earlier term found damage whose end was not
// announced.
func (t *Term) healEarlier(ctx context.Context, d *written) {
	if !t.renew(ctx, d.root.Checkpoint.Key) {
		return
	}
	t.unhealed = false
	t.tell(ctx, fsm.AnnounceBucketHealed, "a new checkpoint has replaced the damaged archive")
}

// renew makes the flusher write a new checkpoint, and returns true when the document no longer
// needs an object, or false when ctx ends.
func (t *Term) renew(ctx context.Context, key string) bool {
	t.builder.Renew()
	for t.written.Load().names(key) {
		t.flusher.Rewrite()
		if !sleep.For(ctx, healInterval) {
			return false
		}
	}
	return true
}

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
	sleep.Wake(t.doubted)
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

// collectMost is the largest number of objects that one round removes. A round also ends after Config.CollectInterval.
const collectMost = 1_000_000

// collect removes objects that are not needed any more from the bucket, every
// Config.CollectInterval, until ctx ends. The document in the bucket says which objects
// are needed.
func (t *Term) collect(ctx context.Context) {
	var probes map[string]bool
	var copies archive.Copies
	for sleep.For(ctx, t.cfg.CollectInterval) {
		if t.flusher.Failing() != "" {
			continue
		}
		var err error
		if probes, err = probe.Collect(ctx, t.cfg.Bucket, probes); err != nil && ctx.Err() == nil {
			t.log.Warn("cannot collect garbage in the bucket; trying again", "error", err)
		}
		if err := t.collectOnce(ctx, &copies); err != nil && ctx.Err() == nil {
			t.log.Warn("cannot collect garbage in the bucket; trying again", "error", err)
		}
	}
}

func (t *Term) collectOnce(ctx context.Context, copies *archive.Copies) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.CollectInterval)
	defer cancel()
	seen, err := t.readDocument(ctx)
	if err != nil || !t.alive(seen.Doc) {
		return err // the next flush detects the lost document
	}
	before := time.UnixMilli(t.clock.now()).Add(-t.cfg.Flush.Window)
	kept, more, err := copies.Read(ctx, t.cfg.Bucket)
	if err != nil {
		return err
	}
	if more {
		t.log.Warn("there are too many copies of documents: objects that only some of them need are deleted when they "+
			"are older than --pitr-window; remove the copies that you do not need", "prefix", archive.CopyPrefix)
	}
	deleted, err := archive.Collect(ctx, t.cfg.Bucket, seen.Doc, before, collectMost, t.stillAlive, kept...)
	if deleted > 0 {
		t.log.Debug("deleted objects that are past the window", "objects", deleted, "before", before)
	}
	return err
}

// alive reports whether a document belongs to this leader term and its heartbeat is so
// recent that no other broker can have taken it over.
func (t *Term) alive(doc *document.File) bool {
	return doc != nil && doc.Header != nil && doc.Header.Epoch == t.fence.Epoch() && !doc.Overtaken &&
		t.clock.now()-doc.BrokerHeartbeat < t.cfg.BrokerTimeout.Milliseconds()
}

// stillAlive reads the document again: this node may have been paused for long.
func (t *Term) stillAlive(ctx context.Context) (bool, error) {
	seen, err := t.readDocument(ctx)
	return err == nil && t.alive(seen.Doc), err
}
