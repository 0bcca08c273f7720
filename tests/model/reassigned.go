package model

import (
	"math"
	"slices"
	"time"

	"osqueue/tests/history"
)

// reassignWithin is by when a job is to be handed out again, after its lease.
const reassignWithin = history.Time(time.Second)

// How far the effects of a fault reach, before it was noted and after it was over.
const (
	faultBefore = history.Time(time.Second)
	faultAfter  = history.Time(5 * time.Second)
)

// reassigned: what a silent worker held goes back when its lease is over, at its old
// place, and does not wait while others ask. The time of a takeover does not count.
func reassigned(f *facts, v *Verdict) {
	f.backInTime(v)
	f.backInOrder(v)
	f.notKeptFromClaims(v)
}

// backInTime: by the log, no lease outlives its end by more than a second.
func (f *facts) backInTime(v *Verdict) {
	s := &leaseLog{v: new(Verdict), live: make(map[string]live)}
	for _, l := range f.log {
		if l.Code != okCode {
			continue
		}
		s.time(l)
		for _, it := range l.Jobs {
			if !didItem(it) {
				continue
			}
			now, is := s.live[it.Job]
			if l.Kind == history.Passed && it.End == leaseEnd && is && now.since >= 0 {
				v.Checked++
				end := now.until(s.broker)
				if late := l.Now - end; late > int64(reassignWithin/history.Millisecond) && !f.disturbed(f.ofMachine(end), f.ofMachine(l.Now)) {
					v.broken(f.opsOf(it.Job), "log %s: the lease of job %s was over at %d ms, and it went back %d ms later", l.LSN, it.Job, end, late)
				}
			}
			s.step(l, it)
		}
	}
}

// backInOrder: what went back is handed out before what came after it.
func (f *facts) backInOrder(v *Verdict) {
	q := newLineup()
	for _, l := range f.log {
		q.step(l, func(p *place) {
			if !p.waits {
				return
			}
			v.Checked++
			if first := q.before(q.back, p); first != nil {
				v.broken(f.opsOf(first.job, p.job), "log %s: job %s is handed out while %s waits, which came before it and whose lease ran out",
					l.LSN, p.job, first.job)
			}
		})
	}
}

// ofMachine is a reading of the machine's clock as a time of the run. The machine's
// is that of the leader's, and so near this process's unless a fault says otherwise.
func (f *facts) ofMachine(ms int64) history.Time {
	return history.Time(ms-f.h.Run.Start.UnixMilli()) * history.Millisecond
}

// disturbed reports whether there was a fault, or a takeover, in that time.
func (f *facts) disturbed(from, to history.Time) bool {
	return f.faulty(from, to) || slices.ContainsFunc(f.log, func(l *history.Applied) bool {
		at := f.ofMachine(l.Now)
		return l.Kind == history.Broker && at >= from-faultBefore && at <= to+faultBefore
	})
}

// faulty reports whether there was a fault in that time.
func (f *facts) faulty(from, to history.Time) bool {
	return slices.ContainsFunc(f.h.Faults, func(x history.Fault) bool {
		return x.Name != history.WorkerDead && x.Begin-faultBefore <= to && x.End+faultAfter >= from
	})
}

// notKeptFromClaims checks that no claim of the type, made a second or more after the end
// of a lease, returns fewer jobs than it asked for while the job has not been given out.
// Claims whose answers were lost may have the job, and takeovers lengthen leases, so that
// without a log that knows both there is nothing to compare with.
func (f *facts) notKeptFromClaims(v *Verdict) {
	if len(f.log) == 0 || f.unseen() > 0 {
		return
	}
	changed := make(map[string]bool)
	for _, op := range f.ops {
		changed[op.Job] = changed[op.Job] || op.Kind == history.Cancel || op.Kind == history.Edit
	}
	given := f.given()
	for _, t := range f.terms() {
		e := f.enqueue[t.job]
		if t.gaveUp || t.unsure || f.foreignJob[t.job] || e == nil || e.Backoff > 0 || e.Limits != "" || changed[t.job] || f.lastAttempt(t, e) || t.lease == 0 {
			continue
		}
		next, token := history.Never, uint64(math.MaxUint64)
		for _, g := range given[t.job] {
			if g.token > t.token && g.token < token {
				next, token = g.op.Call, g.token
			}
		}
		if next == history.Never && !f.endsWaiting(t) {
			continue // a worker that is not known had it
		}
		over := t.sign.Return + t.lease + t.lease/slewShare + reassignWithin
		v.Checked++
		op := f.emptyClaim(e.Type, over, next)
		if op != nil && !f.faulty(t.sign.Call, op.Return) && !f.takenOver(t.sign, op) {
			v.broken([]int{t.claim.ID, op.ID}, "job %s: the lease of %s under token %d was over by %.3f s, and claim %d of %s got nothing until %.3f s",
				t.job, t.claim.Client, t.token, (over - reassignWithin).Seconds(), op.ID, op.Client, op.Return.Seconds())
		}
	}
}

// given are the claims that handed out each job, also those whose answers were lost.
func (f *facts) given() map[string][]handing {
	by := make(map[string][]handing)
	for _, op := range f.ops {
		if op.Kind != history.Claim {
			continue
		}
		for _, held := range f.handed(op) {
			by[held.Job] = append(by[held.Job], handing{op, held.Token})
		}
	}
	return by
}

// takenOver reports whether the log may have a takeover between two answers. It compares
// LSNs: the machine's clock can be far from the time of the run.
func (f *facts) takenOver(from, to *history.Op) bool {
	last := to.LSN
	if last == (history.LSN{}) { // what got nothing may have no entry
		for _, op := range f.ops {
			if op.Call > to.Return && op.LSN != (history.LSN{}) && (last == (history.LSN{}) || op.LSN.Compare(last.LSN) < 0) {
				last = op.LSN
			}
		}
	}
	return slices.ContainsFunc(f.log, func(l *history.Applied) bool {
		return l.Kind == history.Broker && l.LSN.Compare(from.LSN.LSN) > 0 && (last == (history.LSN{}) || l.LSN.Compare(last.LSN) < 0)
	})
}

// lastAttempt: the lease's end is the job's.
func (f *facts) lastAttempt(t *term, e *history.Op) bool {
	for _, held := range t.claim.Jobs {
		if held.Job == t.job && held.Token == t.token {
			return held.Attempt >= attemptsOf(e)
		}
	}
	return true
}

// endsWaiting reports whether the end state shows that the job was not claimed later.
func (f *facts) endsWaiting(t *term) bool {
	last := f.final[t.job]
	return last != nil && last.Token == t.token && !hasEnded(last.Status)
}

// emptyClaim is a claim of that type which returned in that time, and was called
// before its end, with less than it asked for.
func (f *facts) emptyClaim(kind string, from, to history.Time) *history.Op {
	for _, op := range f.ops {
		if op.Kind != history.Claim || op.Outcome != history.OK || op.Return < from || op.Return >= to {
			continue
		}
		if len(f.handed(op)) == 0 && (len(op.Types) == 0 || slices.Contains(op.Types, kind)) {
			return op
		}
	}
	return nil
}
