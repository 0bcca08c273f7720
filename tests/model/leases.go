package model

import (
	"cmp"
	"slices"

	"osqueue/tests/history"
)

// Slack of a lease seen from outside: the leader's clock may be slewed by a tenth,
// and counts in milliseconds.
const (
	slewShare  = 10
	clockGrain = 5 * history.Millisecond
)

// leases checks that a job is not claimed again while its lease lives, and that no report
// under an expired lease is accepted.
func leases(f *facts, v *Verdict) {
	f.leasesByTime(v)
	f.leasesByToken(v)
	f.leasesInLog(v)
}

// term is one attempt as clients saw it.
type term struct {
	job    string
	claim  *history.Op
	token  uint64
	lease  history.Time
	sign   *history.Op // of life: the last one that was acknowledged
	gaveUp bool        // there was a report that ends the lease, or may have
	unsure bool        // a heartbeat may have lengthened it: its answer was lost
}

// terms are all attempts, by job and then by token.
func (f *facts) terms() []*term {
	type key struct {
		job   string
		token uint64
	}
	by := make(map[key]*term)
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			by[key{held.Job, held.Token}] = &term{job: held.Job, claim: op, token: held.Token, lease: held.Lease, sign: op}
		}
	}
	for _, op := range f.ops {
		t := by[key{op.Job, op.Token}]
		if t == nil {
			continue
		}
		switch op.Kind {
		case history.Heartbeat:
			if op.Outcome == history.OK && op.Call > t.sign.Call {
				t.sign = op
			}
			t.unsure = t.unsure || op.Outcome == history.Unknown
		case history.Complete, history.Fail, history.Release:
			t.gaveUp = t.gaveUp || op.Outcome != history.Refused
		}
	}
	all := make([]*term, 0, len(by))
	for _, t := range by {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *term) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.token, b.token))
	})
	return all
}

// leasesByTime: a lease lasts for its length from the call of the last sign of
// life, at least. A loss may end it, and bring it back to life if its successor was lost.
func (f *facts) leasesByTime(v *Verdict) {
	all := f.terms()
	for i, t := range all {
		v.Checked++
		if i+1 == len(all) || all[i+1].job != t.job || t.gaveUp {
			continue
		}
		next := all[i+1]
		if f.mayBeLost(t.claim, next.claim) || f.mayBeLost(next.claim, t.sign) {
			continue
		}
		lives := t.sign.Call + t.lease - t.lease/slewShare - clockGrain
		if t.lease > 0 && next.claim.Return < lives {
			v.broken([]int{t.claim.ID, t.sign.ID, next.claim.ID},
				"job %s: %s was given it under token %d at %.3f s, and %s held it under %d until %.3f s at least",
				t.job, next.claim.Client, next.token, next.claim.Return.Seconds(), t.claim.Client, t.token, lives.Seconds())
		}
	}
}

// leasesByToken: once a claim has returned, older tokens of its job are not heard. After a
// loss the older claim holds the job again, if the younger one was not in the bucket.
func (f *facts) leasesByToken(v *Verdict) {
	given := make(map[string][]handing)
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			given[held.Job] = append(given[held.Job], handing{op, held.Token})
		}
	}
	for _, op := range f.ops {
		if op.Outcome != history.OK || op.Token == 0 || !reports(op.Kind) {
			continue
		}
		v.Checked++
		for _, g := range given[op.Job] {
			if g.token > op.Token && g.op.Return < op.Call && !f.mayBeLost(g.op, op) {
				v.broken([]int{g.op.ID, op.ID}, "job %s: %s of %s under token %d was accepted after token %d was given to %s",
					op.Job, op.Kind, op.Client, op.Token, g.token, g.op.Client)
			}
		}
	}
}

func reports(k history.Kind) bool {
	switch k {
	case history.Heartbeat, history.Complete, history.Fail, history.Release, history.Throttle, history.Step, history.Attach:
		return true
	}
	return false
}

// live is a lease as the log has it.
type live struct {
	token uint64
	since int64 // of the last heartbeat; -1: before the log begins
	ms    int64
}

// until is the last ms of the lease.
func (l live) until(broker int64) int64 { return max(l.since, broker) + l.ms }

// leaseLog follows the leases through a log.
type leaseLog struct {
	v      *Verdict
	live   map[string]live
	broker int64 // when the last one registered
}

// leasesInLog: the same, by the machine's own clock and to the millisecond.
func (f *facts) leasesInLog(v *Verdict) {
	s := &leaseLog{v: v, live: make(map[string]live)}
	for _, l := range f.log {
		if l.Code != okCode {
			continue
		}
		s.time(l)
		for _, it := range l.Jobs {
			if didItem(it) {
				s.step(l, it)
			}
		}
	}
}

// time follows the entries from which all leases count again.
func (s *leaseLog) time(l *history.Applied) {
	if l.Kind == history.Broker {
		s.broker = max(s.broker, l.Now)
	}
}

func (s *leaseLog) step(l *history.Applied, it history.Item) {
	now, is := s.live[it.Job]
	switch l.Kind {
	case history.Snapshot:
		if it.Status == runningStatus {
			s.live[it.Job] = live{it.Token, -1, 0}
		}
	case history.Claim:
		s.v.Checked++
		if is && now.since >= 0 {
			s.v.broken(nil, "log %s: job %s is handed out under token %d while the lease of %d lasts until %d ms (it is %d ms)",
				l.LSN, it.Job, it.Token, now.token, now.until(s.broker), l.Now)
		}
		s.live[it.Job] = live{it.Token, l.Now, int64(it.Lease / history.Millisecond)}
	case history.Heartbeat:
		s.held(l, it, now, is)
		s.live[it.Job] = live{it.Token, l.Now, int64(it.Lease / history.Millisecond)}
	case history.Complete, history.Fail, history.Release:
		s.held(l, it, now, is)
		delete(s.live, it.Job)
	case history.Passed:
		if it.End == leaseEnd && is && now.since >= 0 && l.Now <= now.until(s.broker) {
			s.v.broken(nil, "log %s: the lease of job %s under token %d ends at %d ms, and lasts until %d ms",
				l.LSN, it.Job, now.token, l.Now, now.until(s.broker))
		}
		if it.Status != runningStatus {
			delete(s.live, it.Job)
		}
	default:
		if it.Status != runningStatus {
			delete(s.live, it.Job)
		}
	}
}

// leaseEnd is how an attempt ends whose lease ran out.
const leaseEnd = "lease_expired"

// held: a report that the machine accepts is of the lease that lives.
func (s *leaseLog) held(l *history.Applied, it history.Item, now live, is bool) {
	if s.v.Checked++; !is || now.token != it.Token {
		s.v.broken(nil, "log %s: %s of job %s under token %d is accepted, and the lease that lives is %d",
			l.LSN, l.Kind, it.Job, it.Token, now.token)
	}
}
