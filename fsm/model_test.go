package fsm_test

import (
	"math"
	"math/big"
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// model is the queue as the contract and doc.go tell it: lists, searched from
// end to end, and no index that could be wrong.
type model struct {
	meta    fsm.Meta
	jobs    []*fsm.Job         // in FIFO order
	workers []*fsm.Worker      // by name
	claims  []*fsm.ClaimRecord // oldest first
	events  []event
}

// event is fsm.Event in a comparable form.
type event struct {
	id       string
	from, to fsm.Status
	removed  bool
}

func newModel() *model { return &model{meta: fsm.Meta{Settings: fsm.DefaultSettings()}} }

func (m *model) apply(lsn fsm.LSN, b *fsmpb.Batch) []fsm.Result {
	m.events = nil
	m.meta.LSN = lsn
	if len(b.Mutations) > 0 {
		if op := b.Mutations[0].GetRegisterBroker(); op != nil && m.accepts(op) {
			m.meta.LeasesFrom = max(m.meta.Now, b.NowMs)
		}
	}
	m.tick(b.NowMs)
	var results []fsm.Result
	for _, mut := range b.Mutations {
		results = append(results, m.one(mut))
	}
	return results
}

func (m *model) one(mut *fsmpb.Mutation) fsm.Result {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		return m.enqueue(op.Enqueue.Jobs)
	case *fsmpb.Mutation_Claim:
		return m.claim(op.Claim)
	case *fsmpb.Mutation_Heartbeat:
		return m.heartbeat(op.Heartbeat)
	case *fsmpb.Mutation_Complete:
		return m.report(op.Complete.Worker, op.Complete.Lease, fsm.EndOK, func(j *fsm.Job) {
			m.finish(j, fsm.Completed, fsm.EndOK)
			j.Result = op.Complete.Result
			m.meta.CompletedTotal++
		})
	case *fsmpb.Mutation_Fail:
		return m.report(op.Fail.Worker, op.Fail.Lease, fsm.EndFail, func(j *fsm.Job) {
			m.failed(j, fsm.EndFail, op.Fail.Error, op.Fail.RetryDelayMs, op.Fail.Permanent)
		})
	case *fsmpb.Mutation_Release:
		return m.report(op.Release.Worker, op.Release.Lease, fsm.EndGiven, func(j *fsm.Job) {
			m.back(j, fsm.EndGiven)
			j.Attempts--
		})
	case *fsmpb.Mutation_RegisterWorker:
		return m.registerWorker(op.RegisterWorker)
	case *fsmpb.Mutation_WorkerDead:
		i := m.workerAt(op.WorkerDead.Name)
		if i < 0 {
			return fsm.Result{Code: fsm.NotFound}
		}
		m.die(i)
		return fsm.Result{}
	case *fsmpb.Mutation_RegisterBroker:
		return m.registerBroker(op.RegisterBroker)
	}
	panic("a mutation that the model does not know")
}

// sum adds durations to a time and stays within int64.
func sum(values ...int64) int64 {
	total := new(big.Int)
	for _, v := range values {
		total.Add(total, big.NewInt(v))
		if !total.IsInt64() {
			total.SetInt64(math.MaxInt64)
			if v < 0 {
				total.SetInt64(math.MinInt64)
			}
		}
	}
	return total.Int64()
}

// deadline is something that falls due; those of one moment go by kind, then
// by name.
type deadline struct {
	at   int64
	kind int // 0 a scheduled job, 1 a lease, 2 a worker
	key  string
}

func (d deadline) before(o deadline) bool {
	if d.at != o.at {
		return d.at < o.at
	}
	if d.kind != o.kind {
		return d.kind < o.kind
	}
	return d.key < o.key
}

// next is the earliest deadline there is.
func (m *model) next() (first deadline, ok bool) {
	consider := func(d deadline) {
		if !ok || d.before(first) {
			first, ok = d, true
		}
	}
	for _, j := range m.jobs {
		switch j.Status {
		case fsm.Scheduled:
			consider(deadline{j.RunAt, 0, j.ID})
		case fsm.InProgress:
			consider(deadline{sum(max(j.Heartbeat, m.meta.LeasesFrom), j.HeldMs, 1), 1, j.ID})
		}
	}
	for _, w := range m.workers {
		consider(deadline{sum(max(w.LastSeen, m.meta.LeasesFrom), m.meta.Settings.WorkerTimeoutMs, 1), 2, w.Name})
	}
	return first, ok
}

func (m *model) tick(now int64) {
	m.meta.Now = max(m.meta.Now, now)
	for {
		d, ok := m.next()
		if !ok || d.at > m.meta.Now {
			break
		}
		switch d.kind {
		case 0:
			m.change(m.job(d.key), func(j *fsm.Job) { j.Status = fsm.Unclaimed })
		case 1:
			m.change(m.job(d.key), func(j *fsm.Job) {
				m.failed(j, fsm.EndLease, "the lease of worker "+shown(j.Worker)+" ran out", 0, false)
			})
		case 2:
			m.die(m.workerAt(d.key))
		}
	}
	m.retire()
	m.claims = slices.DeleteFunc(m.claims, func(r *fsm.ClaimRecord) bool {
		return sum(r.ClaimedAt, fsm.ClaimMemoryMs) < m.meta.Now
	})
}

func shown(worker string) string {
	if worker == fsm.Anonymous {
		return "(no name)"
	}
	return worker
}

// retire removes what ended well, oldest end first, while there is too much of
// it or it is too old.
func (m *model) retire() {
	for {
		var oldest *fsm.Job
		n := int64(0)
		for _, j := range m.jobs {
			if j.Status == fsm.Completed {
				n++
				if oldest == nil || j.FinishedAt < oldest.FinishedAt {
					oldest = j
				}
			}
		}
		s := m.meta.Settings
		if n == 0 || n <= s.RetainCompletedCount && sum(oldest.FinishedAt, s.RetainCompletedMs, 1) > m.meta.Now {
			return
		}
		m.jobs = slices.DeleteFunc(m.jobs, func(j *fsm.Job) bool { return j == oldest })
		m.events = append(m.events, event{oldest.ID, oldest.Status, oldest.Status, true})
	}
}

func (m *model) job(id string) *fsm.Job {
	for _, j := range m.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// change replaces a job by a changed copy: results keep the old one.
func (m *model) change(old *fsm.Job, how func(*fsm.Job)) *fsm.Job {
	j := *old
	how(&j)
	m.jobs[slices.Index(m.jobs, old)] = &j
	if j.Status != old.Status {
		m.events = append(m.events, event{j.ID, old.Status, j.Status, false})
	}
	return &j
}

func (m *model) finish(j *fsm.Job, s fsm.Status, end fsm.End) {
	j.Status, j.AttemptEnd, j.FinishedAt = s, end, m.meta.Now
}

func (m *model) back(j *fsm.Job, end fsm.End) {
	j.Status, j.AttemptEnd, j.Worker, j.Heartbeat = fsm.Unclaimed, end, "", 0
}

func (m *model) failed(j *fsm.Job, end fsm.End, why string, delay int64, permanent bool) {
	limit := j.MaxAttempts
	if limit == fsm.MaxAttemptsUnset {
		limit = m.meta.Settings.MaxAttempts
	}
	j.LastError = why
	if permanent || j.Attempts >= limit {
		m.finish(j, fsm.Dead, end)
		m.meta.DeadTotal++
		return
	}
	m.back(j, end)
	if delay > 0 {
		j.Status, j.RunAt = fsm.Scheduled, sum(m.meta.Now, delay)
	}
}

func (m *model) enqueue(jobs []*fsmpb.NewJob) fsm.Result {
	before, events, seq := slices.Clone(m.jobs), len(m.events), m.meta.LastSeq
	res := fsm.Result{Jobs: make([]*fsm.Job, len(jobs)), Codes: make([]fsm.Code, len(jobs))}
	for i, n := range jobs {
		old := m.job(n.Id)
		fresh := m.fresh(n)
		switch {
		case n.Id == "":
			res.Code = fsm.NoID
		case old == nil:
			m.meta.LastSeq++
			m.jobs = append(m.jobs, fresh)
			m.events = append(m.events, event{fresh.ID, 0, fresh.Status, false})
			res.Jobs[i] = fresh
		case sameRequest(old, fresh):
			res.Jobs[i], res.Codes[i] = old, fsm.Duplicate
		default:
			res.Code = fsm.IDTaken
		}
		if res.Code != fsm.OK {
			m.jobs, m.events, m.meta.LastSeq = before, m.events[:events], seq
			clear(res.Jobs)
			clear(res.Codes)
			res.Codes[i] = res.Code
			return res
		}
	}
	return res
}

func (m *model) fresh(n *fsmpb.NewJob) *fsm.Job {
	j := &fsm.Job{
		Seq: m.meta.LastSeq + 1, ID: n.Id, Type: n.Type, Payload: n.Payload, Status: fsm.Unclaimed,
		Priority: n.Priority, MaxAttempts: fsm.MaxAttemptsUnset, CreatedAt: m.meta.Now, RunAt: n.RunAtMs, LeaseMs: n.LeaseMs,
	}
	if n.MaxAttempts != nil {
		j.MaxAttempts = *n.MaxAttempts
	}
	if j.RunAt > m.meta.Now {
		j.Status = fsm.Scheduled
	}
	return j
}

func sameRequest(a, b *fsm.Job) bool {
	return a.Type == b.Type && a.Priority == b.Priority && a.MaxAttempts == b.MaxAttempts && a.LeaseMs == b.LeaseMs &&
		string(a.Payload) == string(b.Payload) && (a.Payload == nil) == (b.Payload == nil)
}

func (m *model) claim(op *fsmpb.Claim) fsm.Result {
	m.seen(op.Worker)
	for _, r := range m.claims {
		if op.RequestId != "" && r.Worker == op.Worker && r.RequestID == op.RequestId {
			return fsm.Result{Code: fsm.Duplicate, Jobs: m.stillHeld(r)}
		}
	}
	var res fsm.Result
	for range min(max(op.Max, 1), fsm.ClaimJobsMax) {
		j := m.best(op.Types)
		if j == nil {
			break
		}
		res.Jobs = append(res.Jobs, m.lease(j, op))
	}
	if op.RequestId != "" && len(res.Jobs) > 0 {
		m.remember(op, res.Jobs)
	}
	return res
}

func (m *model) stillHeld(r *fsm.ClaimRecord) (jobs []*fsm.Job) {
	for _, l := range r.Leases {
		for _, j := range m.jobs {
			if j.ID == l.JobID && j.Token == l.Token && j.Status == fsm.InProgress {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

func (m *model) best(types []string) (best *fsm.Job) {
	for _, j := range m.jobs {
		if j.Status != fsm.Unclaimed || len(types) > 0 && (j.Type == "" || !slices.Contains(types, j.Type)) {
			continue
		}
		if best == nil || j.Priority > best.Priority {
			best = j
		}
	}
	return best
}

func (m *model) lease(old *fsm.Job, op *fsmpb.Claim) *fsm.Job {
	m.meta.Token++
	return m.change(old, func(j *fsm.Job) {
		j.Status, j.AttemptEnd, j.Worker, j.Token = fsm.InProgress, fsm.NoEnd, op.Worker, m.meta.Token
		j.Attempts++
		j.ClaimedAt, j.Heartbeat = m.meta.Now, m.meta.Now
		j.HeldMs = 0
		for _, wish := range []int64{m.meta.Settings.LeaseMs, j.LeaseMs, op.LeaseMs} {
			if wish > 0 {
				j.HeldMs = wish
			}
		}
	})
}

func (m *model) remember(op *fsmpb.Claim, jobs []*fsm.Job) {
	r := &fsm.ClaimRecord{Worker: op.Worker, RequestID: op.RequestId, ClaimedAt: m.meta.Now}
	for _, j := range jobs {
		r.Leases = append(r.Leases, fsm.Lease{JobID: j.ID, Token: j.Token})
	}
	m.claims = append(m.claims, r)
	own := func(r *fsm.ClaimRecord) bool { return r.Worker == op.Worker }
	n := 0
	for _, r := range m.claims {
		if own(r) {
			n++
		}
	}
	if n > fsm.ClaimsPerWorkerMax {
		i := slices.IndexFunc(m.claims, own)
		m.claims = slices.Delete(slices.Clone(m.claims), i, i+1)
	}
}

// verdict is whether a report of the attempt's end counts.
func verdict(j *fsm.Job, worker string, token uint64, end fsm.End) fsm.Code {
	running := j != nil && j.Status == fsm.InProgress
	switch {
	case j == nil:
		return fsm.NotFound
	case token != 0 && token != j.Token:
		return fsm.StaleToken
	case token != 0 && running:
		return fsm.OK
	case token != 0 && end != fsm.NoEnd && j.AttemptEnd == end:
		return fsm.Duplicate
	case token != 0 && j.AttemptEnd == fsm.EndLease:
		return fsm.LeaseExpired
	case !running:
		return fsm.NotRunning
	case j.Worker != worker:
		return fsm.WrongWorker
	}
	return fsm.OK
}

func (m *model) report(worker string, l *fsmpb.Lease, end fsm.End, effect func(*fsm.Job)) fsm.Result {
	m.seen(worker)
	j := m.job(l.JobId)
	res := fsm.Result{Code: verdict(j, worker, l.Token, end)}
	if res.Code == fsm.OK {
		j = m.change(j, effect)
		m.retire()
	}
	if j != nil {
		res.Jobs = []*fsm.Job{j}
	}
	return res
}

func (m *model) heartbeat(op *fsmpb.Heartbeat) fsm.Result {
	m.seen(op.Worker)
	var res fsm.Result
	for _, l := range op.Leases {
		j := m.job(l.JobId)
		code := verdict(j, op.Worker, l.Token, fsm.NoEnd)
		if code == fsm.OK {
			j = m.change(j, func(j *fsm.Job) { j.Heartbeat = m.meta.Now })
		}
		res.Jobs, res.Codes = append(res.Jobs, j), append(res.Codes, code)
	}
	return res
}

func (m *model) workerAt(name string) int {
	return slices.IndexFunc(m.workers, func(w *fsm.Worker) bool { return w.Name == name })
}

func (m *model) seen(name string) {
	if i := m.workerAt(name); i >= 0 {
		w := *m.workers[i]
		w.LastSeen = m.meta.Now
		m.workers[i] = &w
	}
}

func (m *model) registerWorker(op *fsmpb.RegisterWorker) fsm.Result {
	w := &fsm.Worker{
		Name: op.Name, Types: op.Types, Version: op.Version, Address: op.Address,
		RegisteredAt: m.meta.Now, LastSeen: m.meta.Now,
	}
	if i := m.workerAt(op.Name); i >= 0 {
		w.RegisteredAt = m.workers[i].RegisteredAt
		m.workers[i] = w
		return fsm.Result{}
	}
	m.workers = append(m.workers, w)
	slices.SortFunc(m.workers, func(a, b *fsm.Worker) int { return strings.Compare(a.Name, b.Name) })
	return fsm.Result{}
}

func (m *model) die(i int) {
	name := m.workers[i].Name
	m.workers = slices.Delete(m.workers, i, i+1)
	for _, j := range slices.Clone(m.jobs) {
		if j.Status == fsm.InProgress && j.Worker == name {
			m.change(j, func(j *fsm.Job) { m.failed(j, fsm.EndLease, "worker "+shown(name)+" is dead", 0, false) })
		}
	}
}

func (m *model) accepts(op *fsmpb.RegisterBroker) bool {
	b := m.meta.Broker
	return op.Epoch > b.Epoch || op.Epoch == b.Epoch && op.Node == b.Node
}

func (m *model) registerBroker(op *fsmpb.RegisterBroker) fsm.Result {
	if !m.accepts(op) {
		return fsm.Result{Code: fsm.OldEpoch}
	}
	m.meta.Broker = fsm.Broker{Node: op.Node, Address: op.Address, Epoch: op.Epoch}
	m.meta.Cluster, m.meta.Lineage = op.Cluster, op.Lineage
	m.meta.LeasesFrom = m.meta.Now
	m.meta.Token = max(m.meta.Token, min(op.Epoch, fsm.EpochMax)<<32)
	if s := op.Settings; s != nil {
		m.meta.Settings = fsm.Settings{
			MaxAttempts: s.MaxAttempts, LeaseMs: s.LeaseMs, WorkerTimeoutMs: s.WorkerTimeoutMs,
			RetainCompletedMs: s.RetainCompletedMs, RetainCompletedCount: s.RetainCompletedCount,
		}
	}
	m.retire()
	return fsm.Result{}
}
