package fsm

import "osqueue/fsm/fsmpb"

// Forecast estimates which jobs an entry will make claimable, for a caller that prepares
// the entry. It ignores what the mutations of the entry do to each other, and the limits of
// tenant groups. It changes nothing, and nothing that is applied depends on it. It must not
// be used after the machine has changed.
type Forecast struct {
	m       *Machine
	nowMs   int64
	counted map[string]int // jobs so far, of types with settings
	found   func(jobType string, n int)
}

// NewForecast returns a forecast for an entry of the time nowMs. The forecast calls found
// for each type of which a mutation makes jobs claimable, with their number, within the
// limits of the type.
func (m *Machine) NewForecast(nowMs int64, found func(jobType string, n int)) *Forecast {
	return &Forecast{m: m, nowMs: nowMs, found: found}
}

// Add adds a mutation to the entry.
func (f *Forecast) Add(mut *fsmpb.Mutation) {
	if mut.Request != nil && f.m.requests.Of(mut.Request.Key) != nil {
		return // a repetition
	}
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		f.enqueue(op.Enqueue)
	case *fsmpb.Mutation_Release:
		f.giveBack(op.Release.Lease)
	case *fsmpb.Mutation_Fail:
		if delay := op.Fail.RetryDelayMs; !op.Fail.Permanent && delay != nil && *delay == 0 {
			f.giveBack(op.Fail.Lease)
		}
	case *fsmpb.Mutation_Change:
		if ChangeKind(op.Change.Kind) == RetryJobs {
			f.retry(op.Change.Ids)
		}
	case *fsmpb.Mutation_Group:
		for _, part := range op.Group.Mutations {
			f.Add(part)
		}
	}
}

// enqueue counts the jobs that are new, due, and wait for no other job. Most batches have
// one type.
func (f *Forecast) enqueue(op *fsmpb.Enqueue) {
	jobType, n := "", 0
	for _, j := range op.Jobs {
		if j.RunAtMs > f.nowMs || len(j.Options.GetAfter()) > 0 || len(j.Options.GetAfterBatches()) > 0 || f.m.ids.Get(j.Id) != nil {
			continue
		}
		if key := uniqueKey(j); key != "" && f.m.uniques.Holder(f.m.ids, j.Type, key) != nil {
			continue
		}
		if j.Type != jobType {
			f.count(jobType, n, 0)
			jobType, n = j.Type, 0
		}
		n++
	}
	f.count(jobType, n, 0)
}

// giveBack counts a job that a worker returns to the queue.
func (f *Forecast) giveBack(l *fsmpb.Lease) {
	j := f.m.ids.Get(l.GetJobId())
	if j != nil && j.Status == InProgress && (l.Token == 0 || l.Token == j.Execution().Token) {
		f.count(j.Type, 1, 1)
	}
}

func (f *Forecast) retry(ids []string) {
	for _, id := range ids {
		if j := f.m.ids.Get(id); j != nil && j.Status.Ended() && j.Status != Completed {
			f.count(j.Type, 1, 0)
		}
	}
}

// count reports n jobs of a type, within the limits of the type when ended of its running
// jobs have ended.
func (f *Forecast) count(jobType string, n, ended int) {
	if q := f.m.types.queues[jobType]; q != nil && q.settings != nil && n > 0 {
		if f.counted == nil {
			f.counted = make(map[string]int)
		}
		if s := q.settings; s.MaxRunning > 0 && s.RateMilli <= 0 && !s.Paused {
			f.counted[jobType] -= ended
		}
		n = min(n, f.m.types.claimCapacity(q)-f.counted[jobType])
		f.counted[jobType] += max(n, 0)
	}
	if n > 0 {
		f.found(jobType, n)
	}
}
