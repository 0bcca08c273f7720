package fsm_test

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// model is the queue by the rules of DESIGN.md and doc.go: lists, searched from end to
// end, without indexes that could be wrong. It never changes a record of a list in place:
// results keep the old records, and a refused mutation is undone by putting the old lists
// back.
type model struct {
	touched    map[string]bool // ids of the jobs that the enqueue has added or replaced
	attaching  []attachment    // what the enqueue gives its jobs
	opening    string          // id of the batch that a mutation makes together with jobs, while it is applied
	dying      uint64          // the instance of the worker that dies; 0: all of its name
	meta       *fsm.Meta
	jobs       []*fsm.Job           // in FIFO order
	workers    []*fsm.Worker        // by name
	claims     []*fsm.ClaimRecord   // oldest first
	queues     []*fsm.QueueSettings // by name
	limits     []*fsm.Limit         // by name
	parked     []*fsm.ParkedLane    // by type, group, then limits
	turns      []*fsm.Turn          // by type, then group
	crons      []*fsm.Cron          // by name
	batches    []*fsm.JobBatch      // by id
	holds      []*fsm.Hold          // by type, then key
	requests   []*fsm.RequestRecord // oldest first
	tokens     []*fsm.Token         // by id
	artefacts  []*fsm.Artefact      // by id
	counted    []counted            // every change that a figure counts
	hooks      []*hooked            // by name
	hookNumber uint32               // events for hooks in the entry
	events     []event

	random   uint64 // the random number of the entry
	settling int    // how many waiters the entry may still settle
	parkings int    // how many lanes claims moved in the entry
	did      []string
}

// event is fsm.Event in a comparable form.
type event struct {
	kind     fsm.EventKind
	id       string
	from, to fsm.Status
	removed  bool
	name     string
	text     string
}

// waitersMax is how many jobs may wait for one, and how many are settled in one
// entry.
const waitersMax = 10_000

func newModel() *model {
	return &model{meta: &fsm.Meta{Settings: fsm.DefaultSettings(), Level: fsm.BaseLevel}}
}

// copied is a copy that later changes of m leave alone.
func (m *model) copied() *model {
	c := *m
	c.meta = fsmpb.Copy(m.meta)
	c.jobs, c.workers, c.claims = slices.Clone(m.jobs), slices.Clone(m.workers), slices.Clone(m.claims)
	c.queues, c.turns, c.crons = slices.Clone(m.queues), slices.Clone(m.turns), slices.Clone(m.crons)
	c.batches, c.holds, c.requests = slices.Clone(m.batches), slices.Clone(m.holds), slices.Clone(m.requests)
	c.limits, c.parked = slices.Clone(m.limits), slices.Clone(m.parked)
	c.tokens, c.artefacts, c.counted = slices.Clone(m.tokens), slices.Clone(m.artefacts), slices.Clone(m.counted)
	c.events, c.hooks = slices.Clone(m.events), slices.Clone(m.hooks)
	return &c
}

func (m *model) apply(lsn fsm.LSN, b *fsmpb.Batch) []fsm.Result {
	m.events, m.hookNumber, m.random, m.settling = nil, 0, b.Random, waitersMax
	m.parkings, m.did = 0, nil
	m.meta.Term, m.meta.Index = lsn.Term, lsn.Index
	if len(b.Mutations) > 0 {
		if op := b.Mutations[0].GetRegisterBroker(); op != nil && m.accepts(op) {
			m.meta.LeasesFromMs = max(m.meta.NowMs, b.NowMs)
		}
	}
	m.tick(b.NowMs)
	var results []fsm.Result
	for _, mut := range b.Mutations {
		results = append(results, m.request(mut))
	}
	m.reopen()
	return results
}

// one is a mutation and what every mutation is followed by.
func (m *model) one(mut *fsmpb.Mutation) fsm.Result {
	res := m.effect(mut)
	m.settle()
	m.retire()
	return res
}

func (m *model) effect(mut *fsmpb.Mutation) fsm.Result {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		return m.enqueue(op.Enqueue)
	case *fsmpb.Mutation_Claim:
		return m.claim(op.Claim)
	case *fsmpb.Mutation_Heartbeat:
		return m.heartbeat(op.Heartbeat)
	case *fsmpb.Mutation_Complete:
		return m.complete(op.Complete)
	case *fsmpb.Mutation_Fail:
		return m.fail(op.Fail)
	case *fsmpb.Mutation_Release:
		return m.release(op.Release)
	case *fsmpb.Mutation_RegisterWorker:
		return m.registerWorker(op.RegisterWorker)
	case *fsmpb.Mutation_WorkerDead:
		return m.workerDead(op.WorkerDead)
	case *fsmpb.Mutation_SetQuiet:
		return m.setQuiet(op.SetQuiet)
	case *fsmpb.Mutation_RegisterBroker:
		return m.registerBroker(op.RegisterBroker)
	case *fsmpb.Mutation_Change:
		return m.changeJobs(op.Change)
	case *fsmpb.Mutation_EditJob:
		return m.editJob(op.EditJob)
	case *fsmpb.Mutation_SetQueue:
		return m.setQueue(op.SetQueue)
	case *fsmpb.Mutation_SetLimit:
		return m.setLimit(op.SetLimit)
	case *fsmpb.Mutation_ThrottleLimit:
		return m.throttleLimit(op.ThrottleLimit)
	case *fsmpb.Mutation_StoreStep:
		return m.storeStep(op.StoreStep)
	case *fsmpb.Mutation_Suspend:
		return m.suspend(op.Suspend)
	case *fsmpb.Mutation_SendSignal:
		return m.sendSignal(op.SendSignal)
	case *fsmpb.Mutation_MakeLink:
		return m.makeLink(op.MakeLink)
	case *fsmpb.Mutation_RetryFlow:
		return m.retryFlow(op.RetryFlow)
	case *fsmpb.Mutation_ReserveArtefact:
		return m.reserveArtefact(op.ReserveArtefact)
	case *fsmpb.Mutation_AttachArtefact:
		return m.attachArtefact(op.AttachArtefact)
	case *fsmpb.Mutation_DropArtefacts:
		return m.dropArtefacts(op.DropArtefacts)
	case *fsmpb.Mutation_PutCron:
		return m.putCron(op.PutCron)
	case *fsmpb.Mutation_PauseCron:
		return m.pauseCron(op.PauseCron)
	case *fsmpb.Mutation_DeleteCron:
		return m.deleteCron(op.DeleteCron)
	case *fsmpb.Mutation_FireCron:
		return m.fireCron(op.FireCron)
	case *fsmpb.Mutation_TriggerCron:
		return m.triggerCron(op.TriggerCron)
	case *fsmpb.Mutation_Group:
		return m.group(op.Group)
	case *fsmpb.Mutation_Announce:
		return m.announce(op.Announce)
	case *fsmpb.Mutation_ForceComplete:
		return m.forceComplete(op.ForceComplete)
	case *fsmpb.Mutation_RaiseLevel:
		if op.RaiseLevel.Level <= m.meta.Level {
			return fsm.Result{Code: fsm.Duplicate}
		}
		m.meta.Level = op.RaiseLevel.Level
		return fsm.Result{}
	case *fsmpb.Mutation_CreateToken:
		return m.createToken(op.CreateToken)
	case *fsmpb.Mutation_RevokeToken:
		return m.revokeToken(op.RevokeToken)
	case *fsmpb.Mutation_TouchTokens:
		return m.touchTokens(op.TouchTokens)
	case *fsmpb.Mutation_PutHook:
		return m.putHook(op.PutHook)
	case *fsmpb.Mutation_DeleteHook:
		return m.deleteHook(op.DeleteHook)
	case *fsmpb.Mutation_TestHook:
		return m.testHook(op.TestHook)
	case *fsmpb.Mutation_ReportHook:
		return m.reportHook(op.ReportHook)
	case *fsmpb.Mutation_SetAlert:
		return m.setAlert(op.SetAlert)
	case *fsmpb.Mutation_CheckState:
		return fsm.Result{}
	case *fsmpb.Mutation_StateChecked:
		if bad := op.StateChecked.Diverged; len(bad) > 0 {
			m.tell(outbox.Diverged, &outbox.Event{Subject: strings.Join(bad, " "), Text: "the state of these nodes differs from that of most"})
		}
		return fsm.Result{}
	}
	panic("a mutation that the model does not know")
}

// sum adds durations to a time and stays within int64.
func sum(values ...int64) int64 {
	total := new(big.Int)
	for _, v := range values {
		total.Add(total, big.NewInt(v))
		total.SetInt64(clamped(total))
	}
	return total.Int64()
}

// since is the time from then to now.
func since(now, then int64) int64 {
	return clamped(new(big.Int).Sub(big.NewInt(now), big.NewInt(then)))
}

// clamped is the int64 that is nearest to n.
func clamped(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// The kinds of deadlines, in the order in which those of one moment come.
const (
	dueJob = iota
	dueLease
	dueWorker
	dueTimeout
	dueResume
	dueExpiry
)

// deadline is something that falls due; those of one moment go by kind, then
// by name.
type deadline struct {
	at   int64
	kind int
	key  string
}

func (d deadline) before(o deadline) bool {
	return cmp.Or(cmp.Compare(d.at, o.at), cmp.Compare(d.kind, o.kind), cmp.Compare(d.key, o.key)) < 0
}

// next is the earliest deadline there is.
func (m *model) next() (first deadline, ok bool) {
	consider := func(d deadline) {
		if !ok || d.before(first) {
			first, ok = d, true
		}
	}
	for _, j := range m.jobs {
		if m.mayExpire(j) {
			consider(deadline{j.Options().StartBefore, dueExpiry, j.ID})
		}
		switch j.Status {
		case fsm.Scheduled:
			consider(deadline{j.RunAt, dueJob, j.ID})
		case fsm.InProgress:
			consider(deadline{sum(max(j.Execution().Heartbeat, m.meta.LeasesFromMs), j.Execution().HeldMs, 1), dueLease, j.ID})
			if j.Details().TimeoutMs > 0 {
				consider(deadline{m.timeoutEnd(j), dueTimeout, j.ID})
			}
		}
	}
	for _, w := range m.workers {
		if w.GoneAtMs != 0 {
			consider(deadline{sum(w.GoneAtMs, fsm.QuietMs), dueWorker, w.Name})
			continue
		}
		consider(deadline{sum(max(w.LastSeenMs, m.meta.LeasesFromMs), m.meta.Settings.WorkerTimeoutMs, 1), dueWorker, w.Name})
	}
	for _, q := range m.queues {
		if q.Pause.GetUntilMs() != 0 {
			consider(deadline{q.Pause.UntilMs, dueResume, q.Name})
		}
	}
	return first, ok
}

// mayExpire is whether a job is to start before some time, and never started.
func (m *model) mayExpire(j *fsm.Job) bool {
	waits := j.Status == fsm.Blocked || j.Status == fsm.Scheduled || j.Status == fsm.Unclaimed
	return waits && j.Options().StartBefore > 0 && j.Execution().Token == 0 && !j.Details().Revived
}

func (m *model) expire(j *fsm.Job) {
	m.change(j, func(j *fsm.Job) { m.finish(j, fsm.Expired, j.AttemptEnd) })
}

// timeoutEnd is when a running attempt has taken too long.
func (m *model) timeoutEnd(j *fsm.Job) int64 {
	timeout := j.Details().TimeoutMs
	end := sum(j.Execution().ClaimedAt, timeout)
	if m.meta.LeasesFromMs > j.Execution().ClaimedAt {
		end = max(end, sum(m.meta.LeasesFromMs, min(j.Execution().HeldMs, timeout)))
	}
	return end
}

func (m *model) tick(now int64) {
	m.meta.NowMs = max(m.meta.NowMs, now)
	for {
		d, ok := m.next()
		if !ok || d.at > m.meta.NowMs {
			break
		}
		m.fallsDue(d)
	}
	m.forgetLimits()
	m.holds = slices.DeleteFunc(slices.Clone(m.holds), func(h *fsm.Hold) bool { return h.UntilMs <= m.meta.NowMs })
	m.tokens = slices.DeleteFunc(slices.Clone(m.tokens), func(k *fsm.Token) bool { return k.ExpiresMs != 0 && k.ExpiresMs <= m.meta.NowMs })
	m.endReservations()
	m.settle()
	m.retire()
	m.batches = slices.DeleteFunc(slices.Clone(m.batches), func(b *fsm.JobBatch) bool {
		return b.Pending() == 0 && idleSince(b) < m.meta.NowMs && m.batchEnd(b) <= m.meta.NowMs
	})
	m.forget()
}

// idleSince is when a batch ended, or was made if it has no jobs yet.
func idleSince(b *fsm.JobBatch) int64 {
	if b.EndedAtMs != 0 {
		return b.EndedAtMs
	}
	return b.CreatedAtMs
}

// batchEnd is when a batch without pending jobs has been kept for long enough.
func (m *model) batchEnd(b *fsm.JobBatch) int64 {
	return sum(idleSince(b), max(m.meta.Settings.RetainCompletedMs, 0), 1)
}

func (m *model) fallsDue(d deadline) {
	switch d.kind {
	case dueJob:
		m.change(m.job(d.key), func(j *fsm.Job) { j.Status = fsm.Unclaimed })
	case dueLease:
		j := m.job(d.key)
		m.lost(j, fsm.EndLease, "the lease of worker "+shown(j.Execution().Worker)+" ran out")
	case dueWorker:
		i := m.workerAt(d.key)
		if m.workers[i].GoneAtMs != 0 {
			m.forgetWorker(i)
			return
		}
		gone := fsmpb.Copy(m.workers[i])
		gone.GoneAtMs = m.meta.NowMs
		m.die(i, 0)
		if gone.QuietSinceMs != 0 {
			m.workers = put(m.workers, gone, byWorkerName)
		}
	case dueTimeout:
		j := m.job(d.key)
		m.lost(j, fsm.EndTimeout, "ran longer than "+decimal(j.Details().TimeoutMs)+" ms")
	case dueExpiry:
		m.expire(m.job(d.key))
	case dueResume:
		q := fsmpb.Copy(m.settingsOf(d.key))
		q.Paused, q.Pause = false, nil
		m.queues = put(m.queues, q, byQueueName)
		m.events = append(m.events, event{kind: fsm.QueueSet, name: d.key, text: "resumed: the end of the pause has come"})
	}
}

// forget drops the claims and requests that are too old to be repeated.
func (m *model) forget() {
	m.claims = slices.DeleteFunc(slices.Clone(m.claims), func(r *fsm.ClaimRecord) bool {
		return sum(r.ClaimedAtMs, fsm.ClaimMemoryMs) < m.meta.NowMs
	})
	m.requests = slices.DeleteFunc(slices.Clone(m.requests), func(r *fsm.RequestRecord) bool {
		return sum(r.AtMs, m.meta.Settings.RequestMs) < m.meta.NowMs
	})
	m.boundRequests()
}

func shown(worker string) string {
	if worker == fsm.Anonymous {
		return "(no name)"
	}
	return worker
}

func decimal(n int64) string { return big.NewInt(n).String() }

func (m *model) job(id string) *fsm.Job {
	for _, j := range m.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// hasEnded is whether nothing more happens to a job in status s by itself.
func hasEnded(s fsm.Status) bool {
	return s == fsm.Completed || s == fsm.Dead || s == fsm.Cancelled || s == fsm.Expired
}

// add puts a new job behind all others.
func (m *model) add(j *fsm.Job) {
	m.jobs = append(slices.Clone(m.jobs), j)
	m.changed(nil, j)
}

// change replaces a job by a changed copy: results keep the old one.
func (m *model) change(old *fsm.Job, how func(*fsm.Job)) *fsm.Job {
	j := *withExecution(old)
	how(&j)
	if j.Details().Awaits != "" && j.Status != fsm.Scheduled {
		details(&j, func(d *fsm.Details) { d.Awaits = "" })
	}
	m.jobs = slices.Clone(m.jobs)
	m.jobs[slices.Index(m.jobs, old)] = &j
	m.changed(old, &j)
	return &j
}

func (m *model) remove(j *fsm.Job) {
	m.jobs = slices.DeleteFunc(slices.Clone(m.jobs), func(o *fsm.Job) bool { return o == j })
	m.releaseArtefactsOf(j.ID)
	m.changed(j, nil)
}

// changed applies the consequences of a job that is new (no old), changed, or removed (no
// j): an event, the totals, its lane and its group's turn, its batch's counts.
func (m *model) changed(old, j *fsm.Job) {
	switch {
	case j == nil:
		m.events = append(m.events, event{kind: fsm.JobRemoved, id: old.ID, from: old.Status, to: old.Status, removed: true})
	case old == nil:
		m.events = append(m.events, event{kind: fsm.JobChanged, id: j.ID, to: j.Status})
	case old.Status != j.Status:
		m.events = append(m.events, event{kind: fsm.JobChanged, id: j.ID, from: old.Status, to: j.Status})
		m.count(j.Status)
		m.tellJob(old.Status, j)
	}
	m.noteChange(old, j)
	m.retakeTurn(old, j)
	m.recountBatch(old, j)
	m.noteRun(old, j)
}

func (m *model) count(s fsm.Status) {
	switch s {
	case fsm.Completed:
		m.meta.CompletedTotal++
	case fsm.Dead:
		m.meta.DeadTotal++
	case fsm.Cancelled, fsm.Expired:
		m.meta.CancelledTotal++
	}
}

func (m *model) happened(kind fsm.EventKind, name string) {
	m.events = append(m.events, event{kind: kind, name: name})
	m.tellOf(kind, name)
}

// withExecution is a copy of j with an execution that can be changed.
func withExecution(j *fsm.Job) *fsm.Job {
	c, e := *j, *j.Execution()
	c.Exec = &e
	return &c
}

// details changes the details of a job that is itself a fresh copy.
func details(j *fsm.Job, how func(*fsm.Details)) {
	d := *j.Details()
	d.History = slices.Clone(d.History)
	d.Waits = slices.Clone(d.Waits)
	d.Steps, d.Signals, d.Links = slices.Clone(d.Steps), slices.Clone(d.Signals), slices.Clone(d.Links)
	how(&d)
	j.Det = &d
}

// finish ends a job.
func (m *model) finish(j *fsm.Job, s fsm.Status, end fsm.End) {
	j.Status, j.AttemptEnd, j.Exec.FinishedAt = s, end, m.meta.NowMs
	if d := j.Details(); len(d.Waits) > 0 || d.InLine {
		details(j, func(d *fsm.Details) { d.Waits, d.InLine = nil, false })
	}
}

// ready is the status of a job that waits for no other.
func (m *model) ready(j *fsm.Job) fsm.Status {
	if j.RunAt > m.meta.NowMs {
		return fsm.Scheduled
	}
	return fsm.Unclaimed
}

// put puts a record into a list in the place of the one of the same name, or
// where it belongs by the order of names.
func put[T any](list []*T, item *T, order func(a, b *T) int) []*T {
	list = slices.DeleteFunc(slices.Clone(list), func(o *T) bool { return order(o, item) == 0 })
	list = append(list, item)
	slices.SortStableFunc(list, order)
	return list
}

// found is the record that belongs, or nil.
func found[T any](list []*T, belongs func(*T) bool) *T {
	for _, item := range list {
		if belongs(item) {
			return item
		}
	}
	return nil
}

// firstPositive returns the first positive value, or 0.
func firstPositive(values ...int64) int64 {
	for _, w := range values {
		if w > 0 {
			return w
		}
	}
	return 0
}

func (m *model) accepts(op *fsmpb.RegisterBroker) bool {
	b := m.meta
	return op.Epoch > b.Epoch || op.Epoch == b.Epoch && op.Node == b.BrokerNode
}

func (m *model) registerBroker(op *fsmpb.RegisterBroker) fsm.Result {
	if !m.accepts(op) {
		return fsm.Result{Code: fsm.OldEpoch}
	}
	m.meta.BrokerNode, m.meta.BrokerAddress, m.meta.Epoch = op.Node, op.Address, op.Epoch
	m.meta.Cluster, m.meta.Lineage = op.Cluster, op.Lineage
	m.meta.LeasesFromMs = m.meta.NowMs
	m.meta.LastToken = max(m.meta.LastToken, min(op.Epoch, fsm.EpochMax)<<32)
	if op.Settings != nil {
		m.meta.Settings = op.Settings
	}
	m.boundRequests()
	m.happened(fsm.BrokerRegistered, op.Node)
	return fsm.Result{}
}

// announce is said by the node in charge, in at most 256 bytes.
func (m *model) announce(op *fsmpb.Announce) fsm.Result {
	text := op.Text
	for len(text) > 256 || len(text) < len(op.Text) && !utf8.RuneStart(op.Text[len(text)]) {
		text = text[:len(text)-1]
	}
	kinds := map[fsm.AnnounceKind]fsm.EventKind{
		fsm.AnnounceBucketAway: fsm.BucketAway, fsm.AnnounceBucketBack: fsm.BucketBack,
		fsm.AnnounceWritesRefused: fsm.WritesRefused, fsm.AnnounceWritesAccepted: fsm.WritesAccepted,
		fsm.AnnounceBucketDamaged: fsm.BucketDamaged, fsm.AnnounceBucketHealed: fsm.BucketHealed,
	}
	kind := kinds[fsm.AnnounceKind(op.Kind)]
	m.events = append(m.events, event{kind: kind, name: m.meta.BrokerNode, text: text})
	ends := map[fsm.AnnounceKind]fsm.AnnounceKind{
		fsm.AnnounceBucketBack: fsm.AnnounceBucketAway, fsm.AnnounceWritesAccepted: fsm.AnnounceWritesRefused,
		fsm.AnnounceBucketHealed: fsm.AnnounceBucketDamaged,
	}
	if of, isEnd := ends[fsm.AnnounceKind(op.Kind)]; isEnd {
		m.meta.Announced &^= 1 << of
	} else {
		m.meta.Announced |= 1 << op.Kind
	}
	m.tellAnnounced(fsm.AnnounceKind(op.Kind), text)
	return fsm.Result{}
}

func (m *model) workerAt(name string) int {
	return slices.IndexFunc(m.workers, func(w *fsm.Worker) bool { return w.Name == name })
}

func (m *model) seen(name string) {
	if i := m.workerAt(name); i >= 0 {
		w := fsmpb.Copy(m.workers[i])
		w.LastSeenMs = m.meta.NowMs
		if w.GoneAtMs != 0 {
			w.GoneAtMs = 0
			m.happened(fsm.WorkerRegistered, name)
		}
		m.workers = slices.Clone(m.workers)
		m.workers[i] = w
	}
}

func byWorkerName(a, b *fsm.Worker) int { return strings.Compare(a.Name, b.Name) }

func (m *model) registerWorker(op *fsmpb.RegisterWorker) fsm.Result {
	w := &fsm.Worker{
		Name: op.Name, Types: op.Types, Version: op.Version, Address: op.Address,
		RegisteredAtMs: m.meta.NowMs, LastSeenMs: m.meta.NowMs, Capacity: op.Capacity, Instance: op.Instance,
		Account: op.Quota.GetAccount(),
	}
	before := *m
	before.workers = slices.DeleteFunc(slices.Clone(m.workers), func(w *fsm.Worker) bool { return w.Name == op.Name })
	if code := m.overAccount(&before, workerBytes(w), op.Quota, 0); code != fsm.OK {
		return fsm.Result{Code: code}
	}
	if i := m.workerAt(op.Name); i >= 0 {
		was := m.workers[i]
		w.RegisteredAtMs, w.QuietSinceMs, w.QuietedBy = was.RegisteredAtMs, was.QuietSinceMs, was.QuietedBy
		if was.GoneAtMs != 0 {
			m.happened(fsm.WorkerRegistered, op.Name)
		}
	} else {
		m.happened(fsm.WorkerRegistered, op.Name)
	}
	m.workers = put(m.workers, w, byWorkerName)
	return fsm.Result{}
}

func (m *model) workerDead(op *fsmpb.WorkerDead) fsm.Result {
	i := m.workerAt(op.Name)
	if i < 0 {
		return fsm.Result{Code: fsm.NotFound}
	}
	if op.Instance != 0 && op.Instance != m.workers[i].Instance {
		m.takeBack(op.Name, op.Instance)
		return fsm.Result{}
	}
	if m.workers[i].GoneAtMs != 0 {
		m.forgetWorker(i)
		return fsm.Result{}
	}
	m.die(i, op.Instance)
	return fsm.Result{}
}

func (m *model) forgetWorker(i int) {
	name := m.workers[i].Name
	m.workers = slices.Delete(slices.Clone(m.workers), i, i+1)
	m.workerSet(name, false)
}

func (m *model) setQuiet(op *fsmpb.SetQuiet) fsm.Result {
	i := m.workerAt(op.Name)
	switch {
	case i < 0:
		return fsm.Result{Code: fsm.NotFound}
	case (m.workers[i].QuietSinceMs != 0) == op.Quiet:
		return fsm.Result{}
	case m.workers[i].GoneAtMs != 0:
		m.forgetWorker(i)
		return fsm.Result{}
	}
	w := fsmpb.Copy(m.workers[i])
	w.QuietSinceMs, w.QuietedBy = 0, ""
	if op.Quiet {
		w.QuietSinceMs, w.QuietedBy = m.meta.NowMs, op.By
	}
	m.workers = put(m.workers, w, byWorkerName)
	m.workerSet(op.Name, op.Quiet)
	return fsm.Result{}
}

func (m *model) workerSet(name string, quiet bool) {
	text := "it gets jobs again"
	if quiet {
		text = "quiet: it gets no new jobs"
	}
	m.events = append(m.events, event{kind: fsm.WorkerSet, name: name, text: text})
}

func (m *model) isQuiet(name string) bool {
	i := m.workerAt(name)
	return i >= 0 && m.workers[i].QuietSinceMs != 0
}

// die takes a worker out of the registry, and its jobs back.
func (m *model) die(i int, instance uint64) {
	name := m.workers[i].Name
	m.workers = slices.Delete(slices.Clone(m.workers), i, i+1)
	m.dying = instance
	m.happened(fsm.WorkerDied, name)
	m.takeBack(name, instance)
}

// takeBack ends the attempts of an instance of a worker, or of all of its name, in FIFO order.
func (m *model) takeBack(name string, instance uint64) {
	for _, j := range slices.Clone(m.jobs) {
		if j.Status == fsm.InProgress && j.Execution().Worker == name && (instance == 0 || instance == j.Execution().Instance) {
			m.lost(j, fsm.EndLease, "worker "+shown(name)+" is dead")
		}
	}
}
