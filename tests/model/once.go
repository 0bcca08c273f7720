package model

import (
	"osqueue/tests/history"
)

// handing is one job of one claim.
type handing struct {
	op    *history.Op
	token uint64
}

// once: a job completes once, a token is given once, and tokens only grow.
func once(f *facts, v *Verdict) {
	f.completesOnce(v)
	f.tokensOnce(v)
	f.tokensGrow(v)
	f.onceInLog(v)
}

func (f *facts) completesOnce(v *Verdict) {
	first := make(map[string]*history.Op)
	for _, op := range f.ops {
		if op.Kind != history.Complete || op.Outcome != history.OK {
			continue
		}
		v.Checked++
		if other := first[op.Job]; other == nil || f.mayBeLost(other, op) {
			first[op.Job] = op
		} else if other.Token != op.Token {
			v.broken([]int{other.ID, op.ID}, "job %s was completed by two claims: tokens %d and %d", op.Job, other.Token, op.Token)
		}
	}
}

// mayBeLost reports whether what an operation did, and was answered for, may have been
// gone again when a later one came: everything else was lost between them, and it was
// not said to be in the bucket.
func (f *facts) mayBeLost(op, later *history.Op) bool {
	return op.Committed != inBucket && f.losesIn(op.Call, later.Return)
}

func (f *facts) tokensOnce(v *Verdict) {
	given := make(map[uint64]*history.Op)
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			v.Checked++
			if other := given[held.Token]; other != nil {
				v.broken([]int{other.ID, op.ID}, "token %d was given twice: by claims %d and %d (job %s)", held.Token, other.ID, op.ID, held.Job)
			}
			given[held.Token] = op
		}
	}
}

// tokensGrow: of two claims of a job, one of which returned before the other was
// called, the later one has the greater token.
func (f *facts) tokensGrow(v *Verdict) {
	of := make(map[string][]handing)
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			of[held.Job] = append(of[held.Job], handing{op, held.Token})
		}
	}
	for _, job := range sortedKeys(of) {
		all := of[job] // by call; few
		for i, a := range all {
			for _, b := range all[i+1:] {
				if a.op.Return < b.op.Call && a.token >= b.token {
					v.broken([]int{a.op.ID, b.op.ID}, "job %s: token %d was given after %d", job, b.token, a.token)
				}
			}
		}
	}
}

// onceInLog: every claim's token is greater than all before it, and a completed job
// stays so.
func (f *facts) onceInLog(v *Verdict) {
	s := onceLog{v: v, done: make(map[string]history.LSN)}
	for _, l := range f.log {
		for _, it := range l.Jobs {
			if l.Code == okCode && didItem(it) {
				s.step(l, it)
			}
		}
	}
}

// onceLog follows a log.
type onceLog struct {
	v    *Verdict
	last uint64                 // token
	done map[string]history.LSN // completed jobs
}

func (s *onceLog) step(l *history.Applied, it history.Item) {
	at, is := s.done[it.Job]
	switch l.Kind {
	case history.Snapshot:
		s.last = max(s.last, it.Token)
	case history.Claim:
		s.v.Checked++
		if it.Token <= s.last {
			s.v.broken(nil, "log %s: claim of job %s gives token %d after %d", l.LSN, it.Job, it.Token, s.last)
		}
		if is {
			s.v.broken(nil, "log %s: job %s is handed out, and was completed at %s", l.LSN, it.Job, at)
		}
		s.last = max(s.last, it.Token)
	case history.Complete:
		if is {
			s.v.broken(nil, "log %s: job %s is completed again after %s", l.LSN, it.Job, at)
		}
		s.done[it.Job] = l.LSN
	}
}
