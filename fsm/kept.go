package fsm

import (
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// This file counts what the state keeps of requests besides jobs: batches with their callbacks,
// schedules, and registrations of workers. It is derived from the records, each of which names the
// account of the producer.

// recordBytes is what one of these records counts in addition to its texts.
const recordBytes = 256

// runBytes is what one run of a schedule counts in addition to its texts.
const runBytes = 96

// workersBytesMax bounds the registrations of all workers. They have a bound of their own, because a
// queue that is full must get workers.
const workersBytesMax = 16 << 20

// kept is the size of a record, and the part of it that counts for a producer.
type kept struct {
	bytes   int64
	account string
	used    quotaUsage
}

// batchKept counts the callback until it is a job, and the batch itself until it has ended. An open batch
// without jobs counts as one job. It is zero for no batch.
func batchKept(b *JobBatch) kept {
	if b == nil {
		return kept{}
	}
	k := kept{bytes: recordBytes + int64(len(b.Id)), account: b.Account}
	if b.EndedAtMs == 0 {
		k.used.bytes = k.bytes
		if b.Total == 0 {
			k.used.jobs = 1
		}
	}
	if b.Callback != nil && !b.Called {
		size := job.NewSize(b.Callback)
		k.bytes += size
		k.used = quotaUsage{1, k.used.bytes + size}
	}
	return k
}

// newBatchKept is batchKept for a new batch that gets n jobs at once.
func newBatchKept(b *JobBatch, n int) kept {
	k := batchKept(b)
	if n > 0 && b.Callback == nil {
		k.used.jobs = 0
	}
	return k
}

// cronKept is zero for no schedule.
func cronKept(c *Cron) kept {
	if c == nil {
		return kept{}
	}
	n := recordBytes + int64(len(c.Name)+len(c.Spec)+len(c.TimeZone))
	if c.Job != nil {
		n += job.NewSize(c.Job)
	}
	for _, r := range c.Runs {
		n += runBytes + int64(len(r.JobId)+len(r.Reason))
	}
	return kept{bytes: n, account: c.Job.GetQuota().GetAccount(), used: quotaUsage{bytes: n}}
}

// workerKept is zero for no worker.
func workerKept(w *Worker) kept {
	if w == nil {
		return kept{}
	}
	n := recordBytes + len(w.Name) + len(w.Version) + len(w.Address)
	for _, t := range w.Types {
		n += len(t)
	}
	return kept{bytes: int64(n), account: w.Account, used: quotaUsage{bytes: int64(n)}}
}

// keep counts a batch or schedule that takes the place of another one; the zero kept stands for none.
func (u *usage) keep(k, old kept) {
	u.records += k.bytes - old.bytes
	u.use(k, +1)
	u.use(old, -1)
}

// keepWorker is keep for a registration.
func (u *usage) keepWorker(w, old *Worker) {
	k, was := workerKept(w), workerKept(old)
	u.workers += k.bytes - was.bytes
	u.use(k, +1)
	u.use(was, -1)
}

// use counts a record in its account (n is 1), or takes it out (n is -1).
func (u *usage) use(k kept, n int64) {
	if k.account == "" {
		return
	}
	a := u.account(k.account)
	a.all += int(n)
	a.open.jobs += n * k.used.jobs
	a.open.bytes += n * k.used.bytes
	if a.all == 0 {
		delete(u.accounts, k.account)
	}
}

// mayKeep checks the quotas for a record that takes the place of another one (the zero kept: none).
// quota is that of the producer; nil is none.
func (m *Machine) mayKeep(k, old kept, quota *fsmpb.Quota) Code {
	more := k.bytes - old.bytes
	if limit := m.meta.Settings.MaxBytes; more > 0 && limit > 0 && m.Bytes() > limit-more {
		return TooManyBytes
	}
	return m.usage.mayUse(k, old, quota)
}

// mayUse is mayKeep for the quota of the producer.
func (u *usage) mayUse(k, old kept, quota *fsmpb.Quota) Code {
	used := u.open(quota.GetAccount())
	if old.account == k.account {
		used = quotaUsage{used.jobs - old.used.jobs, used.bytes - old.used.bytes}
	}
	switch {
	case quota.GetMaxJobs() > 0 && k.used.jobs > 0 && used.jobs >= quota.MaxJobs:
		return TooManyTokenJobs
	case quota.GetMaxBytes() > 0 && used.bytes > quota.MaxBytes-k.used.bytes:
		return TooManyTokenBytes
	}
	return OK
}
