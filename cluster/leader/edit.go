package leader

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// takeEdit handles a change that another program or a person has made in the document. It
// stores a copy under conflicts/, and enqueues the jobs that were added to the newest version
// through the log. Nothing else of the edit counts. Then it rebases the fence, so that the next
// flush replaces the edited document. A repeated call changes nothing more, because the machine
// recognises the ids of the jobs.
func (t *Term) takeEdit(ctx context.Context, edit *election.ExternalEditError) error {
	if err := t.doubt(ctx); err != nil {
		return err
	}
	if edit.Doc == nil {
		t.log.Warn("another program removed the document; the leader writes it again")
		t.fence.Rebase(edit.Observed)
		return nil
	}
	why, newest, shown := oldCopy, false, (*fsm.View)(nil)
	if h := edit.Doc.Header; h != nil {
		shown, newest = t.fence.Sent(h.Write)
	}
	if newest {
		why = editedByHand
	}
	if err := t.keepCopy(ctx, edit.Raw, why); err != nil {
		return err
	}
	if newest {
		if err := t.takeIn(ctx, t.unknown(edit.Doc, shown), t.proposeEdit); err != nil {
			return err
		}
	}
	t.fence.Rebase(edit.Observed)
	return nil
}

// Messages that say why a copy of a document is kept.
const (
	editedByHand  = "another program changed the document: its new jobs are enqueued, and this cluster's state replaces the rest"
	oldCopy       = "an old copy of the document was put back: this cluster's state replaces it"
	adoptedLegacy = "a legacy document is adopted: only the fields of the legacy broker count"
)

// keepEdited stores a copy of a document before this leader takes it over, if it was changed
// while no leader was active, or is older than the last leader of this cluster. newest reports
// whether the changes were made in the newest version that this node knows of, so that jobs
// that were added to it count.
func (b *base) keepEdited(ctx context.Context, seen election.Observed) (newest bool, err error) {
	doc := seen.Doc
	if doc == nil || doc.Header == nil {
		return false, nil
	}
	newest = !b.outdated(doc.Header)
	switch {
	case newest && doc.Edited:
		return true, b.keepCopy(ctx, seen.Raw, editedByHand)
	case !newest:
		return false, b.keepCopy(ctx, seen.Raw, oldCopy)
	default:
		return true, nil
	}
}

// outdated reports whether a version of the document is older than one that a leader of this
// cluster has certainly written, or that this node has read.
func (b *base) outdated(h *document.Header) bool {
	if h.Epoch < b.meta().Epoch {
		return true
	}
	// An adopted state may have left a history in which the LSNs were higher.
	m := b.meta()
	if m.Lineage == h.Lineage && m.Adopted == "" && h.LSN().Compare(b.do.Unflushed.FlushedLSN()) < 0 {
		return true
	}
	newest := b.newest.Load()
	return newest != nil && newest.lineage == h.Lineage && (h.Epoch < newest.epoch || h.Epoch == newest.epoch && h.LSN().Compare(newest.lsn) < 0)
}

// proposeEdit commits changes of an edited document as one log entry.
type proposeEdit func(context.Context, proposal) ([]fsm.Result, error)

// proposeEdit commits changes of a document that was edited while this leader is active.
// While writes are refused, it extends all leases first, because the entry lets time
// pass.
func (t *Term) proposeEdit(ctx context.Context, p proposal) ([]fsm.Result, error) {
	if t.gate.refusal() != nil {
		if err := t.register(ctx); err != nil {
			return nil, err
		}
	}
	c, err := t.proposals.Do(ctx, own(p))
	return c.results, proposalError(err)
}

// proposeEarly commits changes of a document that was edited while no leader was active,
// before this leader replaces the document. It does not advance the machine's time: no
// broker is registered yet, and no lease may expire.
func (b *base) proposeEarly(ctx context.Context, p proposal) ([]fsm.Result, error) {
	now := b.meta().NowMs
	if now == 0 {
		now = b.nowMs()
	}
	return b.Apply(ctx, now, p...)
}

// unknown returns the jobs of an edited document that this cluster does not have, and that the
// document did not show before the edit: such a job has been removed since. shown is the state
// whose jobs the document showed then; nil: it showed none.
func (b *base) unknown(doc *document.File, shown *fsm.View) (jobs []*fsm.Job) {
	for _, j := range doc.View {
		// A replacement character may stand for bytes that JSON cannot represent.
		if b.job(j.ID) == nil && !strings.ContainsRune(j.ID, utf8.RuneError) {
			jobs = append(jobs, j)
		}
	}
	if shown == nil || len(jobs) == 0 {
		return jobs
	}
	before := make(map[string]struct{})
	shown.List(fsm.Index{}, openStatuses, 0, func(j *fsm.Job) bool {
		before[j.ID] = struct{}{}
		return true
	})
	return slices.DeleteFunc(jobs, func(j *fsm.Job) bool {
		_, known := before[j.ID]
		return known
	})
}

// unknownSince is unknown for a document that another leader wrote: it reads the state in the
// archive. If an object of the archive is missing or damaged, no job counts as unknown, because it
// is better not to run a job that a copy of the document has than to run a removed one.
func (l *Leader) unknownSince(ctx context.Context, doc *document.File) ([]*fsm.Job, error) {
	jobs := l.unknown(doc, nil)
	if len(jobs) == 0 {
		return nil, nil
	}
	m, err := archive.Machine(ctx, l.cfg.Bucket, doc)
	switch {
	case errors.Is(err, archive.ErrDamaged), errors.Is(err, fsm.ErrDiverged):
		l.log.Error("jobs that may have been added to the document by hand are not enqueued, because the archive cannot "+
			"show which jobs are new; the copy has them", "jobs", len(jobs), "reason", err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find the new jobs: %w", err)
	}
	return l.unknown(doc, m.View()), nil
}

// keepCopy stores a copy of a document and logs why. It skips a document with the same
// content as the last copy: the steps after the copy may fail and be repeated many times.
func (b *base) keepCopy(ctx context.Context, raw []byte, why string) error {
	sum := sha256.Sum256(raw)
	if last := b.copied.Load(); last != nil && *last == sum {
		return nil
	}
	key := fmt.Sprintf(archive.CopyPrefix+"%s-%s.json", b.lsn(), fmt.Sprintf("%016x", rand.Uint64()))
	if w := b.cfg.Bucket.PutIfAbsent(ctx, key, raw); w.Outcome != storage.Committed {
		return fmt.Errorf("write a copy to %s: %s: %w", key, w.Outcome, w.Err)
	}
	b.log.Warn(why, "copy", key)
	copies := DocumentCopies{Count: 1, Last: key}
	if before := b.copies.Load(); before != nil {
		copies.Count += before.Count
	}
	b.copies.Store(&copies)
	b.copied.Store(&sum)
	return nil
}

// takeIn enqueues the new jobs of an edited document through the log, and logs how many of them are
// refused, for example because the queue is full.
func (b *base) takeIn(ctx context.Context, added []*fsm.Job, propose proposeEdit) error {
	if len(added) == 0 {
		return nil
	}
	jobs := make([]*fsmpb.NewJob, len(added))
	for i, j := range added {
		jobs[i] = j.NewJob()
	}
	refused := 0
	refuse := func(j *fsmpb.NewJob, why error) {
		refused++
		b.log.Error("a job that was added to the document by hand was refused; the copy has it", "job", j.Id, "reason", why)
	}
	for len(jobs) > 0 {
		batch := editBatch(jobs)
		jobs = jobs[len(batch):]
		results, err := propose(ctx, oneByOne(batch))
		if errors.Is(err, ErrTooLarge) && len(batch) == 1 {
			refuse(batch[0], err)
			continue
		}
		if err != nil {
			return err
		}
		for i, res := range results {
			if err := res.Code.Err(); err != nil {
				refuse(batch[i], err)
			}
		}
	}
	log := b.log.Warn
	if refused > 0 {
		log = b.log.Error
	}
	log("enqueued the jobs of a document that was changed by hand", "new_jobs", len(added)-refused, "only_in_the_copy", refused)
	return nil
}

// oneByOne returns the mutations that enqueue each job on its own, so that the refusal of
// one job does not affect the others.
func oneByOne(jobs []*fsmpb.NewJob) proposal {
	p := make(proposal, len(jobs))
	for i, j := range jobs {
		op := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{j}}
		p[i] = &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
	}
	return p
}

// Bounds of the jobs in one log entry of an edit. A larger job gets an entry of its own.
const (
	editJobs  = 100
	editBytes = 512 << 10
)

// editBatch returns the first jobs that go into one log entry, and at least one.
func editBatch(jobs []*fsmpb.NewJob) []*fsmpb.NewJob {
	size := 0
	for i, j := range jobs {
		if size += j.SizeVT(); i > 0 && (i == editJobs || size > editBytes) {
			return jobs[:i]
		}
	}
	return jobs
}
