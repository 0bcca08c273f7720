package leader

import (
	"context"
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

// Fields of the document that osqueue does not know (storage/document) are edited in
// place, by people and their tools. For these fields the document is always right, not
// the state of this cluster.

// editedExtra returns the mutations that set the unknown fields of this cluster's state
// to those of a document: at its top level, and in the jobs that both contain. A large
// document contains only new jobs.
func (b *base) editedExtra(doc *document.File) (changes proposal) {
	if doc == nil {
		return nil
	}
	if extra := doc.Meta.Extra; extra != b.meta().Extra {
		changes = append(changes, setExtra("", extra))
	}
	if doc.Large {
		return changes
	}
	for _, edited := range doc.Jobs {
		extra := edited.Details().Extra
		// A job with another creation time was enqueued under the same id since.
		j := b.job(edited.ID)
		if j != nil && j.CreatedAt == edited.CreatedAt && j.Details().Extra != extra {
			changes = append(changes, setExtra(j.ID, extra))
		}
	}
	return changes
}

func setExtra(job, extra string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetExtra{SetExtra: &fsmpb.SetExtra{JobId: job, Extra: extra}}}
}

// extraBatch is how many of these mutations, each of up to fsm.ExtraMax bytes, go into
// one log entry.
const extraBatch = 8

// takeInExtra brings the unknown fields of an edited document into the state.
func (b *base) takeInExtra(ctx context.Context, doc *document.File, propose proposeEdit) error {
	changes := b.editedExtra(doc)
	for batch := range slices.Chunk(changes, extraBatch) {
		results, err := propose(ctx, batch)
		if err != nil {
			return err
		}
		for i, res := range results {
			if res.Code != fsm.OK { // the job is gone since
				b.log.Info("dropped fields of a job that were changed by hand; the copy has them",
					"job", batch[i].GetSetExtra().GetJobId(), "reason", res.Code)
			}
		}
	}
	if len(changes) > 0 {
		b.log.Warn("kept unknown fields of a document that was changed by hand", "changes", len(changes))
	}
	return nil
}
