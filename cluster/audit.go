package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/queuefile"
)

// A large document is worth no more than the objects that it names. Somebody may remove one,
// or a disk may lose it, and nothing that a leader writes later would notice. So the active
// leader looks for what is named: by a listing every ArchiveCheck, which finds what is gone,
// and by reading everything once every ArchiveRead, which finds what is damaged. A finding
// is shown (log, event, Status), keeps WaitFlushed from answering, and is healed by a new
// checkpoint of the state, which the leader has.

// ErrArchive means that an object is missing or damaged that the document in the bucket
// needs. A *ArchiveError says which.
var ErrArchive = errors.New("the archive in the bucket is damaged; a new checkpoint is being written")

// ArchiveError is an ErrArchive with the object.
type ArchiveError struct {
	Key   string // of the object
	Cause error
	named string // the key in the document that leads to it
}

// Error names the object and what is wrong with it.
func (e *ArchiveError) Error() string { return fmt.Sprintf("%v: %v", ErrArchive, e.Cause) }

// Unwrap makes it an ErrArchive.
func (*ArchiveError) Unwrap() error { return ErrArchive }

const (
	// inlineChecks is how many checks apart the archive of an inline document is looked at:
	// it is the past of a state that stands in the document.
	inlineChecks = 10
	// healInterval is how often the leader looks whether the new checkpoint is there.
	healInterval = 500 * time.Millisecond
	// auditTimeout bounds the requests of one check.
	auditTimeout = time.Minute
)

// audit looks at what the document names until ctx ends.
func (r *reign) audit(ctx context.Context) {
	interval := r.node.cfg.ArchiveCheck
	if interval <= 0 {
		return
	}
	a := archive.NewAudit(r.node.cfg.Bucket)
	for round := 0; sleep(ctx, interval); round++ {
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
		case found != nil && r.written.Load().names(found.Named): // else the document needs it no more
			r.heal(ctx, found)
		}
	}
}

// look makes one check of an archive.
func (r *reign) look(ctx context.Context, a *archive.Audit, root *queuefile.Archive) (*archive.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	found, err := a.Missing(ctx, root)
	if found != nil || err != nil || r.node.cfg.ArchiveRead <= 0 {
		return found, err
	}
	cfg := &r.node.cfg
	share := float64(a.Objects(root)) * float64(cfg.ArchiveCheck) / float64(cfg.ArchiveRead)
	r.unread += share
	n := int(r.unread)
	r.unread -= float64(n)
	return a.Read(ctx, root, n)
}

// heal says what was found, and has a new checkpoint written until the document does not
// need the object any more.
func (r *reign) heal(ctx context.Context, found *archive.Finding) {
	e := &ArchiveError{Key: found.Key, Cause: fmt.Errorf("object %q: %w", found.Key, found.Err), named: found.Named}
	r.damage.Store(e)
	r.log.Error("an object that the document needs is missing or damaged; a new checkpoint is written", "key", e.Key, "reason", found.Err)
	r.tell(ctx, fsm.AnnounceBucketAway, e.Error())
	r.drafter.Renew()
	for r.written.Load().names(e.named) {
		r.flusher.Rewrite()
		if !sleep(ctx, healInterval) {
			return
		}
	}
	r.damage.Store(nil)
	r.log.Info("a new checkpoint has taken the place of the damaged archive", "key", e.Key)
	r.tell(ctx, fsm.AnnounceBucketBack, "the archive is whole again")
}

// damaged is what is known to be wrong with the archive, if the state is only there; or nil.
func (r *reign) damaged() error {
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
