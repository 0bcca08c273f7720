package model

import (
	"slices"

	"osqueue/tests/history"
)

// versions: the accepted versions of the document follow each other, and each is
// the machine's state at its LSN.
func versions(f *facts, v *Verdict) {
	docs := f.h.Documents
	replayed := slices.ContainsFunc(docs, func(d history.Document) bool { return d.Replay != "" })
	for i := range docs {
		d := &docs[i]
		v.Checked++
		switch {
		case d.Replay != "" && d.Replay != d.Hash:
			v.broken(nil, "version %d is not the machine's state at its LSN %s", d.Version, d.LSN)
		case d.Replay == "" && replayed && f.whole && !d.LSN.IsZero():
			v.broken(nil, "version %d claims LSN %s, which the log does not have", d.Version, d.LSN)
		}
		if i > 0 {
			followsDocument(v, &docs[i-1], d)
		}
	}
}

func followsDocument(v *Verdict, last, next *history.Document) {
	switch {
	case next.LSN.Compare(last.LSN.LSN) < 0:
		v.broken(nil, "version %d: the LSN goes back from %s to %s", next.Version, last.LSN, next.LSN)
	case next.Epoch < last.Epoch:
		v.broken(nil, "version %d: the epoch goes back from %d to %d", next.Version, last.Epoch, next.Epoch)
	case next.Epoch == last.Epoch && next.Node != last.Node:
		v.broken(nil, "version %d: nodes %s and %s both wrote with epoch %d", next.Version, last.Node, next.Node, next.Epoch)
	case next.Lineage != last.Lineage:
		v.broken(nil, "version %d: the lineage changes from %s to %s", next.Version, last.Lineage, next.Lineage)
	case next.LSN == last.LSN && next.Hash != last.Hash:
		v.broken(nil, "version %d: it and the one before are two states of LSN %s", next.Version, next.LSN)
	}
}

// agree: at an equal LSN all nodes have the same state, whether they applied the log
// or wrote it into a snapshot.
func agree(f *facts, v *Verdict) {
	first := make(map[history.LSN]*history.State)
	for i := range f.h.States {
		s := &f.h.States[i]
		other := first[s.LSN]
		if other == nil {
			first[s.LSN] = s
			continue
		}
		v.Checked++
		if other.Hash != s.Hash {
			v.broken(nil, "at LSN %s the %s of %s and the %s of %s are different states", s.LSN, other.Source, other.Node, s.Source, s.Node)
		}
	}
}

// inBucket is the ack level that survives the loss of every node.
const inBucket = "object"

// safe: what was acknowledged as in the bucket is in a version that was accepted
// before the answer, and is there when nothing but the bucket is left.
func safe(f *facts, v *Verdict) {
	if !slices.ContainsFunc(f.h.Documents, func(d history.Document) bool { return d.At > 0 }) && len(f.h.Documents) > 0 {
		v.Note = "the versions bear no times: it was not seen which of them came before an answer"
	}
	for _, op := range f.ops {
		if op.Outcome != history.OK || op.Committed != inBucket || op.LSN.IsZero() {
			continue
		}
		if len(f.h.Documents) > 0 {
			v.Checked++
			if !f.documented(op) {
				v.broken([]int{op.ID}, "%s %d was acknowledged as in the bucket at %.3f s, and no version accepted by then has LSN %s",
					op.Kind, op.ID, op.Return.Seconds(), op.LSN)
			}
		}
		if f.loses && len(f.final) > 0 {
			v.Checked++
			f.survives(v, op)
		}
	}
}

// documented: there is a version with the operation in it.
func (f *facts) documented(op *history.Op) bool {
	return slices.ContainsFunc(f.h.Documents, func(d history.Document) bool {
		return d.LSN.Compare(op.LSN.LSN) >= 0 && d.At <= op.Return
	})
}

// survives holds one operation against what is left.
func (f *facts) survives(v *Verdict, op *history.Op) {
	job := f.final[op.Job]
	switch {
	case op.Job == "":
	case job == nil:
		v.broken([]int{op.ID}, "job %s was acknowledged as in the bucket by %s %d, and is lost", op.Job, op.Kind, op.ID)
	case op.Kind == history.Complete && (job.Status != completed || job.Result != op.Result):
		v.broken([]int{op.ID}, "the completion of job %s was acknowledged as in the bucket, and it is %s with result %s", op.Job, job.Status, job.Result)
	case op.Kind == history.Cancel && op.Status == cancelled && job.Status != cancelled:
		v.broken([]int{op.ID}, "the cancellation of job %s was acknowledged as in the bucket, and it is %s", op.Job, job.Status)
	}
	if op.Kind != history.Complete {
		return
	}
	for _, c := range f.ops {
		if c.Kind == history.Claim && c.Call > op.Return && slices.ContainsFunc(c.Jobs, func(h history.Held) bool { return h.Job == op.Job }) {
			v.broken([]int{op.ID, c.ID}, "job %s was completed for good, and handed out again", op.Job)
		}
	}
}
