package fsm

import "osqueue/fsm/fsmpb"

// This file counts what the state keeps of requests besides jobs: batches with their callbacks,
// schedules, and registrations of workers. It is derived from the records.

// recordBytes is what one of these records counts in addition to its texts.
const recordBytes = 256

// workersBytesMax bounds the registrations of all workers. They have a bound of their own, because a
// queue that is full must get workers.
const workersBytesMax = 16 << 20

// kept is the size of a record, and the part of it that counts for a producer.
type kept struct {
	bytes   int64
	account string
	used    quotaUsage
}

func (b *JobBatch) kept() kept {
	k := kept{bytes: recordBytes + int64(len(b.ID))}
	if b.Callback != nil && !b.Called { // then the job counts
		k.addJob(b.Callback)
		k.used.jobs = 1
	}
	return k
}

func (c *Cron) kept() kept {
	k := kept{bytes: recordBytes + int64(len(c.Name)+len(c.Spec)+len(c.TimeZone))}
	if c.Job != nil {
		k.addJob(c.Job)
	}
	return k
}

func (k *kept) addJob(n *fsmpb.NewJob) {
	k.bytes += newSize(n)
	k.account, k.used.bytes = n.GetQuota().GetAccount(), newSize(n)
}

func (w *Worker) kept() int64 {
	n := recordBytes + len(w.Name) + len(w.Version) + len(w.Address)
	for _, t := range w.Types {
		n += len(t)
	}
	return int64(n)
}

// keep counts a record (n is 1), or takes it out (n is -1).
func (m *Machine) keep(k kept, n int64) {
	m.kept += n * k.bytes
	if k.account == "" {
		return
	}
	a := m.account(k.account)
	a.all += int(n)
	a.open.jobs += n * k.used.jobs
	a.open.bytes += n * k.used.bytes
	if a.all == 0 {
		delete(m.accounts, k.account)
	}
}

// mayKeep checks the quotas for a record that takes the place of another one (the zero kept: none).
// quota is that of the producer; nil is none.
func (m *Machine) mayKeep(k, old kept, quota *fsmpb.Quota) Code {
	more := k.bytes - old.bytes
	if limit := m.meta.Settings.MaxBytes; more > 0 && limit > 0 && m.Bytes() > limit-more {
		return TooManyBytes
	}
	var used quotaUsage
	if a := m.accounts[quota.GetAccount()]; a != nil {
		used = a.open
	}
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

// setBatch stores a batch, which may replace one with its id.
func (m *Machine) setBatch(b *JobBatch) {
	if old, ok := m.batches.Get(b); ok {
		m.keep(old.kept(), -1)
	}
	m.keep(b.kept(), +1)
	m.batches.Set(b)
}

// textBytes returns the bytes of the texts in the options of a job that count in quotas.
func (o *Options) textBytes() int64 {
	if o == nil {
		return 0
	}
	n := len(o.Group) + len(o.Unique.Key) + len(o.Batch)
	for _, list := range [][]string{o.Tags, o.After} {
		for _, text := range list {
			n += len(text)
		}
	}
	for _, h := range o.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return int64(n)
}
