package fsm

import (
	"slices"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/outbox"
	"osqueue/fsm/tenants"
	"osqueue/fsm/timers"
	"osqueue/fsm/usage"
)

// A registered worker must send a heartbeat at least every WorkerTimeoutMs, even when it
// is idle. If it does not, its jobs return to the queue before their leases end. For a
// worker that never registered only the leases count.

// registry applies the mutations about workers, and ends the attempts of dead ones.
type registry struct{ *entry }

func (r registry) register(op *fsmpb.RegisterWorker) Result {
	w := &Worker{
		Name:           strings.Clone(op.Name),
		Types:          job.CloneStrings(op.Types),
		Version:        strings.Clone(op.Version),
		Address:        strings.Clone(op.Address),
		Capacity:       op.Capacity,
		Instance:       op.Instance,
		Account:        strings.Clone(op.GetQuota().GetAccount()),
		RegisteredAtMs: r.meta.NowMs,
		LastSeenMs:     r.meta.NowMs,
	}
	old := r.workers.find(op.Name)
	if more := usage.OfWorker(w).Bytes - usage.OfWorker(old).Bytes; more > 0 && r.usage.Workers > workersBytesMax-more {
		return Result{Code: TooManyBytes}
	}
	if code := mayUse(&r.usage, usage.OfWorker(w), usage.OfWorker(old), op.Quota); code != OK {
		return Result{Code: code}
	}
	if old == nil {
		r.putWorker(nil, w)
		r.events = append(r.events, Event{Kind: WorkerRegistered, Name: w.Name})
		return Result{}
	}
	w.RegisteredAtMs, w.GoneAtMs = old.RegisteredAtMs, old.GoneAtMs
	w.LastSeenMs = max(w.LastSeenMs, old.LastSeenMs)
	w.QuietSinceMs, w.QuietedBy = old.QuietSinceMs, old.QuietedBy
	if w.Gone() {
		r.cameBack(old, w)
		return Result{}
	}
	r.usage.KeepWorker(w, old)
	r.workers.Set(w)
	return Result{}
}

// workers is the registry.
type workers struct {
	*btree.Tree[*Worker]                  // by name
	timerAt              map[string]int64 // the times of the timers, by name; derived, not encoded
	key                  *Worker          // of a search
	turned               []string         // see Machine.Turned
}

func newWorkers() workers {
	byName := func(a, b *Worker) bool { return a.Name < b.Name }
	return workers{Tree: btree.New(byName), timerAt: make(map[string]int64), key: new(Worker)}
}

// find returns a registered worker, or nil.
func (x *workers) find(name string) *Worker {
	x.key.Name = name // a new key would be allocated at every call
	w, _ := x.Get(x.key)
	x.key.Name = ""
	return w
}

// turn notes that a worker's claims must be looked at again.
func (x *workers) turn(name string) {
	if !slices.Contains(x.turned, name) {
		x.turned = append(x.turned, name)
	}
}

// putWorker stores w in place of old, with its timer; nil stands for none.
func (m *Machine) putWorker(old, w *Worker) {
	m.usage.KeepWorker(w, old)
	if old != nil {
		m.timers.Delete(timers.Timer{At: m.workers.timerAt[old.Name], Kind: timers.Worker, Key: old.Name})
	}
	if w == nil {
		m.workers.Delete(old)
		delete(m.workers.timerAt, old.Name)
		return
	}
	end := workerEnd(m.meta, w)
	m.workers.timerAt[w.Name] = end
	m.timers.Set(timers.Timer{At: end, Kind: timers.Worker, Key: w.Name})
	m.workers.Set(w)
}

// retimeWorkers sets the timers of all workers for new settings, whose timeout may be
// shorter.
func (m *Machine) retimeWorkers() {
	for old := range m.workers.Copy().Scan {
		m.putWorker(old, old)
	}
}

// seen records a heartbeat or report of a registered worker. It moves the timer of the worker if
// that is early by a quarter of WorkerTimeoutMs: the timer of an idle worker, which is heard of
// every half of it, does not fire, and a busy worker does not move its timer in every entry.
func (r registry) seen(name string) {
	old := r.workers.find(name)
	if old == nil || old.LastSeenMs >= r.meta.NowMs && !old.Gone() {
		return
	}
	w := fsmpb.Clone(old)
	w.LastSeenMs = r.meta.NowMs
	switch end := workerEnd(r.meta, w); {
	case w.Gone():
		r.cameBack(old, w)
	case end-r.workers.timerAt[w.Name] > r.meta.Settings.WorkerTimeoutMs/4:
		r.putWorker(old, w)
	default:
		r.workers.Set(w)
	}
}

// workerEnd returns the first moment, in ms, at which a silent worker counts as dead, or at
// which a gone one is forgotten.
func workerEnd(m *Meta, w *Worker) int64 {
	if w.Gone() {
		return job.Later(w.GoneAtMs, quietMs)
	}
	return job.Later(max(w.LastSeenMs, m.LeasesFromMs), m.Settings.WorkerTimeoutMs, 1)
}

func (r registry) dead(op *fsmpb.WorkerDead) Result {
	w := r.workers.find(op.Name)
	if w == nil {
		return Result{Code: NotFound}
	}
	if op.Instance != 0 && op.Instance != w.Instance {
		r.loseJobs(w.Name, op.Instance) // another instance has the name now
		return Result{}
	}
	if w.Gone() {
		r.forget(w)
		return Result{}
	}
	if w.Quiet() {
		r.workers.turn(w.Name)
	}
	r.markDead(w, op.Instance)
	return Result{}
}

// markDead removes the worker from the registry and returns its jobs to the queue, those
// of one instance or, if that is 0, of all.
func (r registry) markDead(w *Worker, instance uint64) {
	r.putWorker(w, nil)
	r.events = append(r.events, Event{Kind: WorkerDied, Name: w.Name})
	if r.hooks.HookCount() > 0 {
		r.tell(outbox.News(outbox.WorkerGone, tenants.NameFor("", w.Name), itoa(int64(len(r.heldBy(w.Name, instance))))+" jobs were running"))
	}
	r.firings--
	r.loseJobs(w.Name, instance)
}

// loseJobs ends the attempts of a worker that is dead.
func (r registry) loseJobs(name string, instance uint64) {
	for _, j := range r.heldBy(name, instance) {
		r.firings--
		r.lose(j, EndLease, "worker "+tenants.Printable(name)+" is dead")
	}
}

// heldBy returns the jobs leased to an instance of a worker, or if that is 0 to all of its
// name, lowest Seq first.
func (m *Machine) heldBy(name string, instance uint64) []*Job {
	var jobs []*Job
	m.running.Ascend(&Job{Exec: &Execution{Worker: name}}, func(j *Job) bool {
		if j.Execution().Worker != name {
			return false
		}
		if instance == 0 || instance == j.Execution().Instance {
			jobs = append(jobs, j)
		}
		return true
	})
	return jobs
}
