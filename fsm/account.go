package fsm

import (
	"strings"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// account counts the jobs of one producer with a quota: a family of tokens, or another
// identity. It is derived from the jobs, so that every way to a state gives the same counts,
// and exists while it has jobs.
//
// A job names its account in its options. Jobs without any other option share one Options
// (plain), so that an account costs no memory for each job.
type account struct {
	plain *Options
	all   int        // jobs in every status
	open  quotaUsage // jobs that have not ended, and their payloads
}

func checkQuota(q *fsmpb.Quota) error {
	if q != nil && (q.Account == "" || min(q.MaxJobs, q.MaxBytes) < 0) {
		return job.ErrAccount
	}
	return job.CheckAccount(q.GetAccount())
}

// usage counts what the state keeps of each producer with a quota, and the records of kept.go.
type usage struct {
	accounts map[string]*account
	records  int64 // bytes of batches and schedules
	workers  int64 // bytes of all registrations
}

// account returns the account of that name, and makes it if there is none.
func (u *usage) account(name string) *account {
	a := u.accounts[name]
	if a == nil {
		name = strings.Clone(name)
		a = &account{plain: &Options{Account: name}}
		u.accounts[name] = a
	}
	return a
}

// open returns the jobs of an account that have not ended, and the bytes of their payloads.
func (u *usage) open(name string) quotaUsage {
	if a := u.accounts[name]; a != nil {
		return a.open
	}
	return quotaUsage{}
}

// options returns the options of a new job, or nil if all are zero.
func (u *usage) options(n *fsmpb.NewJob, cron string) *Options {
	o, name := job.NewOptions(n, cron), n.GetQuota().GetAccount()
	if name == "" {
		return o
	}
	a := u.account(name)
	if o == nil {
		return a.plain
	}
	o.Account = a.plain.Account
	return o
}

// share lets a restored job share the options of its account.
func (u *usage) share(j *Job) {
	if j.Opt == nil || j.Opt.Account == "" {
		return
	}
	o := *j.Opt
	if o.Account = ""; o.Zero() {
		j.Opt = u.account(j.Opt.Account).plain
	}
}

// count adds a job to its account (n is 1), or takes it out (n is -1).
func (u *usage) count(j *Job, n int) {
	if j.Opt == nil || j.Opt.Account == "" {
		return
	}
	a := u.account(j.Opt.Account)
	a.all += n
	if !j.Status.Ended() {
		a.open.jobs += int64(n)
		a.open.bytes += int64(n) * j.ProducedSize()
	}
}

// drop forgets the account of a job that was removed, if it was the last one.
func (u *usage) drop(j *Job) {
	if j.Opt != nil && j.Opt.Account != "" && u.accounts[j.Opt.Account].all == 0 {
		delete(u.accounts, j.Opt.Account)
	}
}

// job.CheckAccount checks the quota of the producer of a new job.
func (p *plan) checkAccount(n *fsmpb.NewJob) Code {
	q := n.GetQuota()
	if q == nil {
		return OK
	}
	added, open := p.accounts[q.Account], p.e.usage.open(q.Account)
	limits := quota{jobsMax: q.MaxJobs, bytesMax: q.MaxBytes, jobs: open.jobs + added.jobs, bytes: open.bytes + added.bytes}
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
	k := newBatchKept(b, len(p.jobs))
	p.added.bytes += k.bytes
	if k.account != "" {
		use(&p.accounts, k.account, k.used)
	}
}

// AccountUsage returns how many jobs of an account have not ended, and the bytes of their
// payloads. It takes constant time, and reads live state, as Job does.
func (m *Machine) AccountUsage(name string) (jobs, bytes int64) {
	open := m.usage.open(name)
	return open.jobs, open.bytes
}
