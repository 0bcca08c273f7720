package leader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage/archive"
	"osqueue/storage/queuefile"
)

// A large document is useless without the objects that it names. If an object is removed,
// or a disk loses it, nothing that the leader writes later would detect that. So the
// active leader checks the objects: a listing every ArchiveCheck finds missing objects,
// and reading all of them once every ArchiveRead finds damaged ones. A finding is shown
// in the log, as an event and in Status. It makes WaitFlushed fail. The leader repairs
// the archive with a new checkpoint of its state.

// ArchiveError is an ErrArchive with the object.
type ArchiveError struct {
	Key   string // key of the object
	Cause error
	named string // key in the document that leads to the object
}

// Error returns the object and what is wrong with it.
func (e *ArchiveError) Error() string { return fmt.Sprintf("%v: %v", ErrArchive, e.Cause) }

// Unwrap makes it an ErrArchive.
func (*ArchiveError) Unwrap() error { return ErrArchive }

const (
	// inlineChecks is the number of checks after which the archive of an inline document
	// is checked once: the document contains the state itself, and the archive only the
	// past.
	inlineChecks = 10
	// healInterval is the time between two tests whether the document has the new
	// checkpoint.
	healInterval = 500 * time.Millisecond
	// auditTimeout bounds the requests of one check.
	auditTimeout = time.Minute
)

// audit checks the objects that the document names, every ArchiveCheck, until ctx ends.
func (r *Term) audit(ctx context.Context) {
	interval := r.cfg.ArchiveCheck
	if interval <= 0 {
		return
	}
	a := archive.NewAudit(r.cfg.Bucket)
	for round := 0; sleep.For(ctx, interval); round++ {
		d := r.written.Load()
		if d == nil || d.root == nil || d.form == FormInline && round%inlineChecks != 0 {
			continue
		}
		found, err := r.look(ctx, a, d.root)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.log.Debug("the archive could not be looked at", "error", err)
		case found != nil && r.written.Load().names(found.Named): // else the document no longer needs the object
			r.heal(ctx, found)
		}
	}
}

// look makes one check of an archive: it lists the objects, and reads the share of them
// that is due.
func (r *Term) look(ctx context.Context, a *archive.Audit, root *queuefile.Archive) (*archive.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	found, err := a.Missing(ctx, root)
	if found != nil || err != nil || r.cfg.ArchiveRead <= 0 {
		return found, err
	}
	cfg := &r.cfg
	share := float64(a.Objects(root)) * float64(cfg.ArchiveCheck) / float64(cfg.ArchiveRead)
	r.unread += share
	n := int(r.unread)
	r.unread -= float64(n)
	return a.Read(ctx, root, n)
}

// heal reports a finding, and makes the flusher write a new checkpoint. It returns when
// the document no longer needs the object, or when ctx ends.
func (r *Term) heal(ctx context.Context, found *archive.Finding) {
	e := &ArchiveError{Key: found.Key, Cause: fmt.Errorf("object %q: %w", found.Key, found.Err), named: found.Named}
	r.damage.Store(e)
	r.log.Error("an object that the document needs is missing or damaged; a new checkpoint is written", "key", e.Key, "reason", found.Err)
	r.tellDamage(ctx, fsm.AnnounceBucketDamaged, fsm.AnnounceBucketAway, e.Cause.Error())
	r.builder.Renew()
	for r.written.Load().names(e.named) {
		r.flusher.Rewrite()
		if !sleep.For(ctx, healInterval) {
			return
		}
	}
	r.damage.Store(nil)
	r.log.Info("a new checkpoint has taken the place of the damaged archive", "key", e.Key)
	r.tellDamage(ctx, fsm.AnnounceBucketHealed, fsm.AnnounceBucketBack, fmt.Sprintf("a new checkpoint has replaced object %q", e.Key))
}

// tellDamage proposes an event about the archive, of the kind older below Level9, where
// only events about an outage of the bucket exist.
func (r *Term) tellDamage(ctx context.Context, kind, older fsm.AnnounceKind, text string) {
	if r.meta().Level < fsm.Level9 {
		kind = older
	}
	r.tell(ctx, kind, text)
}

// damaged returns the known damage of the archive, or nil if there is none or if the
// document contains the state inline.
func (r *Term) damaged() error {
	if e := r.damage.Load(); e != nil && r.written.Load().form == FormArchive {
		return e
	}
	return nil
}

// names reports whether a version of the document names an object.
func (w *written) names(key string) bool {
	if w == nil || w.root == nil {
		return false
	}
	return w.root.Base.Key == key ||
		slices.ContainsFunc(w.root.Log, func(ref queuefile.Ref) bool { return ref.Key == key })
}
