package usage

import (
	"osqueue/fsm/artefacts"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// recordBytes is what a batch, schedule or registration counts in addition to its texts.
const recordBytes = 256

// runBytes is what one run of a schedule counts in addition to its texts.
const runBytes = 96

// Kept is the size of a record, and the part of it that counts for a producer.
type Kept struct {
	Bytes   int64
	Account string
	Used    Used
}

// OfBatch counts the callback until it is a job, and the batch itself until it has ended. An open batch
// without jobs counts as one job. It is zero for no batch.
func OfBatch(b *fsmpb.JobBatch) Kept {
	if b == nil {
		return Kept{}
	}
	k := Kept{Bytes: recordBytes + int64(len(b.Id)), Account: b.Account}
	if b.EndedAtMs == 0 {
		k.Used.Bytes = k.Bytes
		if b.Total == 0 {
			k.Used.Jobs = 1
		}
	}
	if b.Callback != nil && !b.Called {
		size := job.NewSize(b.Callback)
		k.Bytes += size
		k.Used = Used{1, k.Used.Bytes + size}
	}
	return k
}

// OfNewBatch is OfBatch for a new batch that gets n jobs at once.
func OfNewBatch(b *fsmpb.JobBatch, n int) Kept {
	k := OfBatch(b)
	if n > 0 && b.Callback == nil {
		k.Used.Jobs = 0
	}
	return k
}

// OfCron is zero for no schedule.
func OfCron(c *fsmpb.Cron) Kept {
	if c == nil {
		return Kept{}
	}
	n := recordBytes + int64(len(c.Name)+len(c.Spec)+len(c.TimeZone))
	if c.Job != nil {
		n += job.NewSize(c.Job)
	}
	for _, r := range c.Runs {
		n += runBytes + int64(len(r.JobId)+len(r.Reason))
	}
	return Kept{Bytes: n, Account: c.Job.GetQuota().GetAccount(), Used: Used{Bytes: n}}
}

// OfWorker is zero for no worker.
func OfWorker(w *fsmpb.Worker) Kept {
	if w == nil {
		return Kept{}
	}
	n := recordBytes + len(w.Name) + len(w.Version) + len(w.Address)
	for _, t := range w.Types {
		n += len(t)
	}
	return Kept{Bytes: int64(n), Account: w.Account, Used: Used{Bytes: int64(n)}}
}

// OfArtefact counts an artefact until its record is dropped. Its bytes count for the producer, until it is released: they are
// not in memory. It is zero for no artefact.
func OfArtefact(a *artefacts.Artefact) Kept {
	if a == nil {
		return Kept{}
	}
	k := Kept{Bytes: recordBytes + int64(len(a.Id)+len(a.Sum)+len(a.JobId)+len(a.Name))}
	if a.ReleasedMs == 0 {
		k.Account, k.Used = a.Account, Used{Bytes: k.Bytes + a.Size}
	}
	return k
}

// Keep counts a batch or schedule that takes the place of another one; the zero Kept stands for none.
func (u *Table) Keep(k, old Kept) {
	u.Records += k.Bytes - old.Bytes
	u.use(k, +1)
	u.use(old, -1)
}

// KeepWorker is Keep for a registration.
func (u *Table) KeepWorker(w, old *fsmpb.Worker) {
	k, was := OfWorker(w), OfWorker(old)
	u.Workers += k.Bytes - was.Bytes
	u.use(k, +1)
	u.use(was, -1)
}

// use counts a record in its account (n is 1), or takes it out (n is -1).
func (u *Table) use(k Kept, n int64) {
	if k.Account == "" {
		return
	}
	a := u.account(k.Account)
	a.all += int(n)
	a.open.Jobs += n * k.Used.Jobs
	a.open.Bytes += n * k.Used.Bytes
	if a.all == 0 {
		delete(u.accounts, k.Account)
	}
}
