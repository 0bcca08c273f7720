package fsm

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidwall/btree"
)

// What the tests of behaviour need to know of the inside.
const (
	ClaimMemoryMs      = claimMemoryMs
	ClaimsPerWorkerMax = claimsPerWorkerMax
	ClaimsMax          = claimsMax
	ClaimJobsMax       = claimJobsMax
	ClaimBytesMax      = claimBytesMax
	RecordMax          = recordMax
	EpochMax           = epochMax
	CounterMax         = counterMax
)

// Bare is j without what is derived: two machines in the same state may differ
// in where a lazily moved timer stands.
func (j *Job) Bare() Job {
	c := *j
	c.timerAt = 0
	return c
}

// Bare is Job.Bare for workers.
func (w *Worker) Bare() Worker {
	c := *w
	c.timerAt = 0
	return c
}

// CheckIndexes compares everything that m derives with what a machine built
// anew from the same jobs, workers and claims derives.
func (m *Machine) CheckIndexes() error {
	fresh, err := m.rebuilt()
	if err != nil {
		return fmt.Errorf("the state cannot be restored: %w", err)
	}
	return errors.Join(
		m.checkIDs(),
		m.checkTree("jobs", m.jobs, fresh.jobs, func(*Job) bool { return true }),
		m.checkTree("ready", m.ready, fresh.ready, func(j *Job) bool { return j.Status == Unclaimed }),
		m.checkTree("running", m.running, fresh.running, func(j *Job) bool { return j.Status == InProgress }),
		m.checkTree("retained", m.retained, fresh.retained,
			func(j *Job) bool { return j.Status == Completed || j.Status == Cancelled }),
		m.checkQueues(fresh),
		m.checkTimers(fresh),
		m.checkClaims(fresh),
		m.checkScalars(),
	)
}

func (m *Machine) rebuilt() (*Machine, error) {
	var err error
	b := NewBuilder(m.meta)
	m.jobs.Scan(func(j *Job) bool { c := j.Bare(); err = b.AddJob(&c); return err == nil })
	if err != nil {
		return nil, err
	}
	m.workers.Scan(func(w *Worker) bool { c := w.Bare(); err = b.AddWorker(&c); return err == nil })
	if err != nil {
		return nil, err
	}
	m.claims.Scan(func(r *ClaimRecord) bool { err = b.AddClaim(r); return err == nil })
	return b.Machine(), err
}

func (m *Machine) checkIDs() error {
	if len(m.ids) != m.jobs.Len() {
		return fmt.Errorf("%d ids for %d jobs", len(m.ids), m.jobs.Len())
	}
	for id, j := range m.ids {
		if id != j.ID {
			return fmt.Errorf("id %q leads to job %q", id, j.ID)
		}
	}
	return nil
}

// checkTree checks that tree holds the current version of exactly the jobs
// that belong, in the order of one built anew.
func (m *Machine) checkTree(name string, tree, fresh *btree.BTreeG[*Job], belongs func(*Job) bool) error {
	want := 0
	for _, j := range m.ids {
		if belongs(j) {
			want++
		}
	}
	items, anew := tree.Items(), fresh.Items()
	if len(items) != want || tree.Len() != want || len(anew) != want {
		return fmt.Errorf("%s: %d jobs (anew: %d), want %d", name, len(items), len(anew), want)
	}
	for i, j := range items {
		if m.ids[j.ID] != j {
			return fmt.Errorf("%s: job %q is there in an old version", name, j.ID)
		}
		if !belongs(j) || anew[i].ID != j.ID {
			return fmt.Errorf("%s: job %q stands where job %q belongs", name, j.ID, anew[i].ID)
		}
	}
	return nil
}

func (m *Machine) checkQueues(fresh *Machine) error {
	if m.counts != fresh.counts {
		return fmt.Errorf("counts %v, anew %v", m.counts, fresh.counts)
	}
	if got, want := len(m.queues), len(fresh.queues); got != want {
		return fmt.Errorf("%d queues, anew %d", got, want)
	}
	for name, q := range m.queues {
		anew := fresh.queues[name]
		if anew == nil || q.name != name || q.counts != anew.counts {
			return fmt.Errorf("queue %q: %+v, anew %+v", name, q, anew)
		}
		err := m.checkTree("queue "+name, q.ready, anew.ready,
			func(j *Job) bool { return j.Status == Unclaimed && j.Type == name })
		if err != nil {
			return err
		}
	}
	return nil
}

// checkTimers checks that everything that can fall due has one timer, which
// does not stand behind its deadline, and where the thing says.
func (m *Machine) checkTimers(fresh *Machine) error {
	if m.timers.Len() != fresh.timers.Len() {
		return fmt.Errorf("%d timers, anew %d", m.timers.Len(), fresh.timers.Len())
	}
	exact := make(map[timer]int64)
	fresh.timers.Scan(func(t timer) bool { exact[timer{kind: t.kind, key: t.key}] = t.at; return true })
	var err error
	m.timers.Scan(func(t timer) bool {
		at, ok := exact[timer{kind: t.kind, key: t.key}]
		if stands := m.timerOf(t); !ok || t.at > at || t.at != stands {
			err = fmt.Errorf("timer %+v: due at %d (known: %v), said to stand at %d", t, at, ok, stands)
		}
		return err == nil
	})
	return err
}

func (m *Machine) timerOf(t timer) int64 {
	switch t.kind {
	case timerDue:
		return m.ids[t.key].RunAt
	case timerLease:
		return m.ids[t.key].timerAt
	}
	w, _ := m.workers.Get(&Worker{Name: t.key})
	return w.timerAt
}

func (m *Machine) checkClaims(fresh *Machine) error {
	same := func(a, b []*ClaimRecord) bool { return slices.Equal(a, b) }
	if !maps.EqualFunc(m.byWorker, fresh.byWorker, same) {
		return fmt.Errorf("claims by worker %v, anew %v", m.byWorker, fresh.byWorker)
	}
	for worker, own := range m.byWorker {
		if len(own) == 0 || len(own) > claimsPerWorkerMax {
			return fmt.Errorf("worker %q has %d claims", worker, len(own))
		}
	}
	return nil
}

func (m *Machine) checkScalars() error {
	if over := int64(m.retained.Len()) - max(m.meta.Settings.RetainCompletedCount, 0); over > 0 {
		return fmt.Errorf("%d finished jobs too many", over)
	}
	if floor := tokenFloor(m.meta.Broker.Epoch); m.meta.Token < floor {
		return fmt.Errorf("token %d is below the floor %d of the epoch", m.meta.Token, floor)
	}
	return nil
}
