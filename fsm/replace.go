package fsm

import (
	"slices"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/usage"
)

// checkReplaced decides whether the holder of the unique key of job i gets its fields, and whether it may grow so. A job is
// replaced once in a plan.
func (p *plan) checkReplaced(i int, n *fsmpb.NewJob) Code {
	old := p.outcomes[i].job
	if old == nil || n.Options.GetUnique().GetOnConflict() == uint32(ConflictKeep) || old.Status != Blocked && old.Status != Scheduled && old.Status != Unclaimed {
		return OK
	}
	if slices.ContainsFunc(p.outcomes[:i], func(f outcome) bool { return f.replaced != nil && f.job == old }) {
		return OK
	}
	j := p.replaced(old, n)
	if j == nil {
		return OK
	}
	account := n.GetQuota().GetAccount()
	used := p.e.usage.Open(account).Bytes + p.accounts[account].Bytes
	if code := mayGrow(old, j, n.Quota, p.limits(n.Type), used); code != OK {
		return code
	}
	if !p.e.artefacts.Free(n.Artefacts, &p.files) {
		return NoSuchArtefact
	}
	p.use(j.Type, j.Options().Account, usage.Used{Bytes: j.ProducedSize() - old.ProducedSize()})
	p.outcomes[i].replaced = j
	return OK
}

// replaced returns a copy of a waiting job with the fields of a new one, or nil if they are the same.
func (p *plan) replaced(old *Job, n *fsmpb.NewJob) *Job {
	j := *old
	j.Priority, j.MaxAttempts = n.Priority, job.AttemptsOf(n.MaxAttempts)
	j.SetPayload(n.Payload)
	if at := runAt(n, p.e.meta.NowMs, old.CreatedAt); at != 0 {
		j.RunAt = at
	}
	own, was, o := *old.Options(), old.Options(), n.Options // which has the unique key
	own.Tags, own.Limits, own.Headers = job.CloneStrings(job.Distinct(o.Tags)), job.CloneStrings(o.Limits), job.CloneHeaders(o.Headers)
	sameHeaders := slices.EqualFunc(own.Headers, was.Headers, func(a, b *fsmpb.Header) bool { return a.Name == b.Name && a.Value == b.Value })
	if !slices.Equal(own.Tags, was.Tags) || !slices.Equal(own.Limits, was.Limits) || !sameHeaders {
		if j.Opt = &own; own.Zero() {
			j.Opt = nil
		}
		p.e.usage.Share(&j)
	}
	if j == *old && len(n.Artefacts)+len(p.e.artefacts.ArtefactsOf(old.ID)) == 0 {
		return nil
	}
	j.Hold(old.ID, n.Payload)
	return &j
}

// runAt returns the run time that an enqueue at the time now gives a job that was created at a time; 0: none.
func runAt(n *fsmpb.NewJob, now, createdAt int64) int64 {
	u := n.Options.GetUnique()
	if u.GetOnConflict() != uint32(ConflictDebounce) {
		return n.RunAtMs
	}
	at := job.Later(now, max(u.WaitMs, 0))
	if u.MaxWaitMs > 0 {
		at = min(at, job.Later(createdAt, u.MaxWaitMs))
	}
	return at
}
