package cluster

import (
	"context"
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/queuefile"
)

// Members of the document that are not ours (storage/queuefile) are edited where they
// stand, by people and their tools: the document is always right about those that it has.

// editedExtra are the changes that give this cluster's state the members that a document
// has: at its top, and in the jobs that both know. In a large document there are no
// jobs but new ones.
func (n *Node) editedExtra(doc *queuefile.Document) (changes proposal) {
	if doc == nil {
		return nil
	}
	if extra := doc.Meta.Extra; extra != n.replica.meta().Extra {
		changes = append(changes, setExtra("", extra))
	}
	if doc.Large {
		return changes
	}
	for _, edited := range doc.Jobs {
		extra := edited.Details().Extra
		// One of another time of creation was enqueued since under the same id.
		j := n.Job(edited.ID)
		if j != nil && j.CreatedAt == edited.CreatedAt && j.Details().Extra != extra {
			changes = append(changes, setExtra(j.ID, extra))
		}
	}
	return changes
}

func setExtra(job, extra string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetExtra{SetExtra: &fsmpb.SetExtra{JobId: job, Extra: extra}}}
}

// extraBatch is how many of these changes, each of up to fsm.ExtraMax bytes, go into one
// log entry.
const extraBatch = 8

// takeInExtra brings the fields of an edited document that are not ours into the state.
func (n *Node) takeInExtra(ctx context.Context, doc *queuefile.Document, propose proposeEdit) error {
	changes := n.editedExtra(doc)
	for batch := range slices.Chunk(changes, extraBatch) {
		results, err := propose(ctx, batch)
		if err != nil {
			return err
		}
		for i, res := range results {
			if res.Code != fsm.OK { // the job has gone in between
				n.log.Info("fields of a job that were changed by hand are not kept; they are in the copy",
					"job", batch[i].GetSetExtra().GetJobId(), "reason", res.Code)
			}
		}
	}
	if len(changes) > 0 {
		n.log.Warn("fields of a document that were changed by hand, and are not ours, are kept with it", "changes", len(changes))
	}
	return nil
}
