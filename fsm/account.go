package fsm

import (
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/usage"
)

// workersBytesMax bounds the registrations of all workers. They have a bound of their own, because a
// queue that is full must get workers.
const workersBytesMax = 16 << 20

// mayKeep checks the quotas for a record that takes the place of another one (the zero Kept: none).
// quota is that of the producer; nil is none.
func (m *Machine) mayKeep(k, old usage.Kept, quota *fsmpb.Quota) Code {
	more := k.Bytes - old.Bytes
	if limit := m.meta.Settings.MaxBytes; more > 0 && limit > 0 && m.Bytes() > limit-more {
		return TooManyBytes
	}
	return mayUse(&m.usage, k, old, quota)
}

// mayUse is mayKeep for the quota of the producer.
func mayUse(u *usage.Table, k, old usage.Kept, quota *fsmpb.Quota) Code {
	used := u.Open(quota.GetAccount())
	if old.Account == k.Account {
		used = usage.Used{Jobs: used.Jobs - old.Used.Jobs, Bytes: used.Bytes - old.Used.Bytes}
	}
	switch {
	case quota.GetMaxJobs() > 0 && k.Used.Jobs > 0 && used.Jobs >= quota.MaxJobs:
		return TooManyTokenJobs
	case quota.GetMaxBytes() > 0 && used.Bytes > quota.MaxBytes-k.Used.Bytes:
		return TooManyTokenBytes
	}
	return OK
}

// checkAccount checks the quota of the producer of a new job.
func (p *plan) checkAccount(n *fsmpb.NewJob) Code {
	q := n.GetQuota()
	if q == nil {
		return OK
	}
	added, open := p.accounts[q.Account], p.e.usage.Open(q.Account)
	limits := quota{jobsMax: q.MaxJobs, bytesMax: q.MaxBytes, jobs: open.Jobs + added.Jobs, bytes: open.Bytes + added.Bytes}
	switch {
	case limits.tooMany():
		return TooManyTokenJobs
	case limits.tooFull(job.NewSize(n)):
		return TooManyTokenBytes
	}
	return OK
}

// noteBatch counts the batch that the plan makes.
func (p *plan) noteBatch(b *JobBatch) {
	k := usage.OfNewBatch(b, len(p.jobs))
	p.added.Bytes += k.Bytes
	if k.Account != "" {
		use(&p.accounts, k.Account, k.Used)
	}
}

// AccountUsage returns how many jobs of an account have not ended, and the bytes of their
// payloads. It takes constant time, and reads live state, as Job does.
func (m *Machine) AccountUsage(name string) (jobs, bytes int64) {
	open := m.usage.Open(name)
	return open.Jobs, open.Bytes
}
