package leader

import (
	"context"
	"fmt"
	"time"

	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage/archive"
	"osqueue/storage/document"
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
		if e := t.damage.Load(); e != nil && d != nil && !d.names(e.named) && d.archive.Compare(e.at) >= 0 {
			t.damage.Store(nil) // doubt has found it, and a new checkpoint is written
		}
		if d != nil && t.unhealed {
			t.healEarlier(ctx, d)
		}
		if d == nil || d.root == nil {
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
		timer := time.NewTimer(interval)
		defer timer.Stop()
		due = timer.C
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
	if d.root != nil && !t.renew(ctx, d.root.Checkpoint.Key) {
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
