package model

import (
	"osqueue/tests/history"
)

// moment is a job as the log has it from an LSN on.
type moment struct {
	lsn      history.LSN
	status   string // "" and Gone: it is not there
	token    uint64
	attempts int
}

// fresh: a read that asks for an LSN shows what was there at it, or later.
func fresh(f *facts, v *Verdict) {
	past := f.past()
	acked := make(map[string][]*history.Op)
	for _, op := range f.ops {
		if op.Outcome == history.OK && op.Job != "" && !op.LSN.IsZero() {
			acked[op.Job] = append(acked[op.Job], op)
		}
	}
	for _, op := range f.ops {
		if op.MinLSN.IsZero() || !isAnswer(op) {
			continue
		}
		v.Checked++
		if !op.LSN.IsZero() && op.LSN.Compare(op.MinLSN.LSN) < 0 {
			v.broken([]int{op.ID}, "%s %d asked %s for %s and was shown %s", op.Kind, op.ID, op.Node, op.MinLSN, op.LSN)
		}
		if op.Kind != history.GetJob {
			continue
		}
		if !f.loses { // what was not in the bucket may be gone, and its LSN with it
			showsWrites(v, op, acked[op.Job])
		}
		if f.whole && !seen(past[op.Job], op) {
			v.broken([]int{op.ID}, "read %d asked %s for %s, and job %s was never %q under token %d since",
				op.ID, op.Node, op.MinLSN, op.Job, op.Status, op.Token)
		}
	}
}

// showsWrites: the read shows what was acknowledged at its LSN or before.
func showsWrites(v *Verdict, op *history.Op, writes []*history.Op) {
	for _, w := range writes {
		if w.LSN.Compare(op.MinLSN.LSN) <= 0 && !shows(op, w) {
			v.broken([]int{w.ID, op.ID}, "read %d asked %s for %s and does not show %s %d at %s: job %s is %q",
				op.ID, op.Node, op.MinLSN, w.Kind, w.ID, w.LSN, op.Job, op.Status)
		}
	}
}

// notFound is the tag of the answer that there is no such job.
const notFound = "not_found"

func isAnswer(op *history.Op) bool {
	return op.Outcome == history.OK || op.Kind == history.GetJob && op.Tag == notFound
}

// shows reports whether the read shows what a write did, as far as nothing later
// can have undone it.
func shows(read, write *history.Op) bool {
	switch write.Kind {
	case history.Enqueue:
		return read.Tag != notFound
	case history.Complete:
		return read.Status == completed
	}
	return true
}

// seen reports whether the job was as the read shows it, at its LSN or later.
func seen(past []moment, read *history.Op) bool {
	now := moment{}
	for _, m := range past {
		if m.lsn.Compare(read.MinLSN.LSN) > 0 && now.is(read) {
			return true
		}
		now = m
	}
	return now.is(read)
}

func (m moment) is(read *history.Op) bool {
	if read.Tag == notFound {
		return m.status == "" || m.status == Gone
	}
	return m.status == read.Status && m.token == read.Token && m.attempts == read.Attempts
}

// past returns the states of each job, in order, by the log.
func (f *facts) past() map[string][]moment {
	all := make(map[string][]moment)
	for _, l := range f.log {
		for _, it := range l.Jobs {
			if l.Code == okCode && didItem(it) && it.Status != "" {
				all[it.Job] = append(all[it.Job], moment{l.LSN, it.Status, it.Token, it.Attempts})
			}
		}
	}
	return all
}
