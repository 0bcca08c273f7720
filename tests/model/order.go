package model

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"osqueue/tests/history"
)

// order: of jobs of one type and priority that were never delayed or retried, and have no limits, the
// first to come is the first to be handed out; of priorities, the highest. In a type with ageing, the rank takes the place of the
// priority: the priority, less the number of whole periods of the ageing in the time since which the job waits.
func order(f *facts, v *Verdict) {
	f.orderInLog(v)
	f.orderByAnswers(v)
}

// place is a job that waits.
type place struct {
	job      string
	seq      int // in the order of enqueues
	kind     string
	priority int32
	since    int64 // it waits, ms
	rank     int64
	fresh    bool // never handed out, never delayed
	waits    bool
}

// lineup holds the waiting jobs, by the log.
type lineup struct {
	places map[string]*place
	fresh  map[string]*btree.BTreeG[*place] // by type
	back   map[string]*btree.BTreeG[*place] // those whose lease ran out, by type
	aging  map[string]int64                 // by type, ms; 0: none
	seq    int
}

func byPlace(a, b *place) bool {
	if a.rank != b.rank {
		return a.rank > b.rank
	}
	return a.seq < b.seq
}

func newLineup() *lineup {
	return &lineup{
		places: make(map[string]*place), fresh: make(map[string]*btree.BTreeG[*place]), back: make(map[string]*btree.BTreeG[*place]),
		aging: make(map[string]int64),
	}
}

// age sorts the places of a type again.
func (q *lineup) age(kind string, ms int64) {
	q.aging[kind] = ms
	for _, all := range []map[string]*btree.BTreeG[*place]{q.fresh, q.back} {
		if tree := all[kind]; tree != nil {
			delete(all, kind)
			tree.Scan(func(p *place) bool { q.put(p); return true })
		}
	}
}

func (q *lineup) tree(p *place) *btree.BTreeG[*place] {
	all := q.back
	if p.fresh {
		all = q.fresh
	}
	if all[p.kind] == nil {
		all[p.kind] = btree.NewBTreeG(byPlace)
	}
	return all[p.kind]
}

// step follows one line; each job that it hands out is shown to claimed first.
func (q *lineup) step(l *history.Applied, claimed func(*place)) {
	if l.Code != okCode {
		return
	}
	for kind, ms := range l.Aging {
		q.age(kind, ms)
	}
	for _, it := range l.Jobs {
		if !didItem(it) {
			continue
		}
		p := q.places[it.Job]
		switch {
		case l.Kind == history.Enqueue && p == nil:
			q.seq++
			p = &place{job: it.Job, seq: q.seq, kind: it.Type, priority: it.Priority, since: it.Since, fresh: it.Status == waitingStatus && it.Limits == ""}
			q.places[it.Job] = p
			if p.fresh {
				q.put(p)
			}
		case p == nil: // from before the log
		case l.Kind == history.Claim:
			claimed(p)
			q.leave(p)
		case l.Kind == history.Heartbeat, l.Kind == history.Step, l.Kind == history.Signal, l.Kind == history.Attach:
		default:
			q.leave(p)
			if l.Kind == history.Passed && it.End == leaseEnd && it.Status == waitingStatus && it.From == runningStatus && it.Limits == "" {
				p.since = it.Since
				q.put(p)
			}
		}
	}
}

func (q *lineup) put(p *place) {
	p.waits, p.rank = true, int64(p.priority)
	if ms := q.aging[p.kind]; ms > 0 {
		p.rank -= p.since / ms
	}
	q.tree(p).Set(p)
}

func (q *lineup) leave(p *place) {
	if p.waits {
		q.tree(p).Delete(p)
	}
	p.waits, p.fresh = false, false
}

// before returns the job that waits before p in such a tree, or nil.
func (q *lineup) before(all map[string]*btree.BTreeG[*place], p *place) *place {
	tree := all[p.kind]
	if tree == nil {
		return nil
	}
	if first, ok := tree.Min(); ok && first != p && byPlace(first, p) {
		return first
	}
	return nil
}

func (f *facts) orderInLog(v *Verdict) {
	q := newLineup()
	for _, l := range f.log {
		q.step(l, func(p *place) {
			if !p.fresh {
				return
			}
			v.Checked++
			if first := q.before(q.fresh, p); first != nil {
				v.broken(f.opsOf(first.job, p.job), "log %s: job %s (type %q, priority %d) is handed out while %s (priority %d) waits, which came before it",
					l.LSN, p.job, p.kind, p.priority, first.job, first.priority)
			}
		})
	}
}

// opsOf are the enqueues of these jobs.
func (f *facts) opsOf(jobs ...string) []int {
	var ids []int
	for _, job := range jobs {
		if e := f.enqueue[job]; e != nil {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// passage is a job's way through the queue, as clients saw it.
type passage struct {
	enqueue *history.Op
	claim   *history.Op // the first one; nil: none was seen
	out     history.Time
}

// orderByAnswers is the same without a log: of two jobs of which one was
// acknowledged before the other was sent, it is the other that is handed out first,
// to a claim that returned before the claim of the one was called.
func (f *facts) orderByAnswers(v *Verdict) {
	type line struct {
		kind     string
		priority int32
	}
	groups := make(map[line][]*passage)
	var names []line
	for _, p := range f.passages() {
		name := line{p.enqueue.Type, p.enqueue.Priority}
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], p)
	}
	for _, name := range names {
		judgeGroup(v, groups[name])
	}
}

// judgeGroup holds each job against the one that, of all that came before it, left
// last.
func judgeGroup(v *Verdict, group []*passage) {
	byCall := slices.Clone(group)
	slices.SortFunc(byCall, func(a, b *passage) int { return cmp.Compare(a.enqueue.Call, b.enqueue.Call) })
	byReturn := slices.Clone(group)
	slices.SortFunc(byReturn, func(a, b *passage) int { return cmp.Compare(a.enqueue.Return, b.enqueue.Return) })
	var last *passage
	n := 0
	for _, p := range byCall {
		for n < len(byReturn) && byReturn[n].enqueue.Return < p.enqueue.Call {
			if last == nil || byReturn[n].out > last.out {
				last = byReturn[n]
			}
			n++
		}
		v.Checked++
		if p.claim != nil && last != nil && p.claim.Return < last.out {
			v.broken([]int{last.enqueue.ID, p.enqueue.ID, p.claim.ID}, "job %s was handed out by claim %d before %s, which was acknowledged before it was sent",
				p.enqueue.Job, p.claim.ID, last.enqueue.Job)
		}
	}
}

// passages are the jobs whose first claim is known, or known not to have been.
func (f *facts) passages() []*passage {
	first := make(map[string]*history.Op)
	touched := make(map[string]bool)
	for _, op := range f.ops {
		if op.Kind == history.Cancel || op.Kind == history.Edit {
			touched[op.Job] = true
		}
		for _, held := range op.Jobs {
			switch {
			case first[held.Job] == nil && held.Attempt == 1 && op.Outcome == history.OK:
				first[held.Job] = op
			case first[held.Job] == nil:
				touched[held.Job] = true // its first claim was not seen
			}
		}
	}
	sure := f.unseen() == 0
	var all []*passage
	for _, op := range f.ops {
		if op.Kind != history.Enqueue || op.Outcome != history.OK || op.Delay > 0 || op.Before > 0 || op.Limits != "" || op.Sequence != "" || touched[op.Job] || f.foreignJob[op.Job] {
			continue
		}
		p := &passage{enqueue: op, claim: first[op.Job], out: history.Never}
		if p.claim != nil {
			p.out = p.claim.Call
		} else if !sure || f.tookUnseen(op.Job) {
			continue
		}
		all = append(all, p)
	}
	return all
}

// tookUnseen reports whether the log has a claim of the job.
func (f *facts) tookUnseen(job string) bool {
	if f.claimedInLog == nil {
		f.claimedInLog = make(map[string]bool)
		for _, l := range f.log {
			for _, it := range l.Jobs {
				if l.Kind == history.Claim || l.Kind == history.Snapshot {
					f.claimedInLog[it.Job] = true
				}
			}
		}
	}
	return f.claimedInLog[job]
}
