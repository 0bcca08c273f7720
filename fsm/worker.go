package fsm

import (
	"strings"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
	"osqueue/fsm/tenants"
)

// A registered worker must send a heartbeat at least every WorkerTimeoutMs, even when it
// is idle. If it does not, its jobs return to the queue before their leases end. For a
// worker that never registered only the leases count.

func (m *Machine) registerWorker(op *fsmpb.RegisterWorker) Result {
	w := &Worker{
		Name:         strings.Clone(op.Name),
		Types:        cloneStrings(op.Types),
		Version:      strings.Clone(op.Version),
		Address:      strings.Clone(op.Address),
		Capacity:     op.Capacity,
		Instance:     op.Instance,
		Account:      strings.Clone(op.GetQuota().GetAccount()),
		RegisteredAt: m.meta.Now,
		LastSeen:     m.meta.Now,
	}
	old, before := m.worker(op.Name), kept{}
	if old != nil {
		before = old.kept()
	}
	more := w.kept().bytes - before.bytes
	if more > 0 && m.workerBytes > workersBytesMax-more {
		return Result{Code: TooManyBytes}
	}
	if code := m.mayUse(w.kept(), before, op.Quota); code != OK {
		return Result{Code: code}
	}
	if old != nil {
		m.keepWorker(old, -1)
		m.keepWorker(w, +1)
		w.RegisteredAt, w.timerAt = old.RegisteredAt, old.timerAt
		w.LastSeen = max(w.LastSeen, old.LastSeen)
		w.QuietSince, w.QuietedBy = old.QuietSince, old.QuietedBy
		if w.GoneAt = old.GoneAt; w.Gone() {
			m.cameBack(w)
			return Result{}
		}
		m.workers.Set(w)
		return Result{}
	}
	m.addWorker(w)
	m.events = append(m.events, Event{Kind: WorkerRegistered, Name: w.Name})
	return Result{}
}

func (m *Machine) addWorker(w *Worker) {
	w.timerAt = m.workerEnd(w)
	m.timers.Set(timer{at: w.timerAt, kind: timerWorker, key: w.Name})
	m.keepWorker(w, +1)
	m.workers.Set(w)
}

// dropWorker removes the worker from the registry.
func (m *Machine) dropWorker(w *Worker) {
	m.timers.Delete(timer{at: w.timerAt, kind: timerWorker, key: w.Name})
	m.keepWorker(w, -1)
	m.workers.Delete(w)
}

// retimeWorkers sets the timers of all workers for new settings, whose timeout may be
// shorter.
func (m *Machine) retimeWorkers() {
	var all []*Worker
	m.workers.Scan(func(w *Worker) bool { all = append(all, w); return true })
	for _, old := range all {
		m.dropWorker(old)
		w := *old
		m.addWorker(&w)
	}
}

// worker returns a registered worker, or nil.
func (m *Machine) worker(name string) *Worker {
	m.wanted.Name = name // a new key would be allocated at every call
	w, _ := m.workers.Get(&m.wanted)
	m.wanted.Name = ""
	return w
}

// seen records a heartbeat or report of a registered worker. It moves the timer of the worker if
// that is early by a quarter of WorkerTimeoutMs: the timer of an idle worker, which is heard of
// every half of it, does not fire, and a busy worker does not move its timer in every entry.
func (m *Machine) seen(name string) {
	old := m.worker(name)
	if old == nil || old.LastSeen >= m.meta.Now && !old.Gone() {
		return
	}
	w := *old
	w.LastSeen = m.meta.Now
	switch end := m.workerEnd(&w); {
	case w.Gone():
		m.cameBack(&w)
	case end-w.timerAt > m.meta.Settings.WorkerTimeoutMs/4:
		m.dropWorker(&w)
		m.addWorker(&w)
	default:
		m.workers.Set(&w)
	}
}

// workerEnd returns the first moment, in ms, at which a silent worker counts as dead, or at
// which a gone one is forgotten.
func (m *Machine) workerEnd(w *Worker) int64 {
	if w.Gone() {
		return later(w.GoneAt, quietMs)
	}
	return later(max(w.LastSeen, m.meta.LeasesFrom), m.meta.Settings.WorkerTimeoutMs, 1)
}

func (m *Machine) workerDead(op *fsmpb.WorkerDead) Result {
	w := m.worker(op.Name)
	if w == nil {
		return Result{Code: NotFound}
	}
	if op.Instance != 0 && op.Instance != w.Instance {
		m.loseJobs(w.Name, op.Instance) // another instance has the name now
		return Result{}
	}
	if w.Gone() {
		m.forgetWorker(w)
		return Result{}
	}
	if w.Quiet() {
		m.turn(w.Name)
	}
	m.markWorkerDead(w, op.Instance)
	return Result{}
}

// markWorkerDead removes the worker from the registry and returns its jobs to the queue, those
// of one instance or, if that is 0, of all.
func (m *Machine) markWorkerDead(w *Worker, instance uint64) {
	m.dropWorker(w)
	m.events = append(m.events, Event{Kind: WorkerDied, Name: w.Name})
	if m.hooks.HookCount() > 0 {
		m.tell(outbox.Event{Kind: outbox.WorkerGone, Subject: tenants.NameFor("", w.Name), Text: itoa(int64(len(m.heldBy(w.Name, instance)))) + " jobs were running"})
	}
	m.firings--
	m.loseJobs(w.Name, instance)
}

// loseJobs ends the attempts of a worker that is dead.
func (m *Machine) loseJobs(name string, instance uint64) {
	for _, j := range m.heldBy(name, instance) {
		m.firings--
		m.lose(j, EndLease, "worker "+printable(name)+" is dead")
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

func cloneStrings(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = strings.Clone(s)
	}
	return out
}
