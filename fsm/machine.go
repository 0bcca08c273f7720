package fsm

import (
	"strings"

	"github.com/tidwall/btree"

	"osqueue/fsm/fsmpb"
)

// Settings are the server settings that the machine decides by. The leader
// puts them into RegisterBroker; between two of these they are constant.
type Settings struct {
	MaxAttempts          int32 // of a job that names none
	LeaseMs              int64 // of a claim and job that name none
	WorkerTimeoutMs      int64 // silence after which a registered worker is dead
	RetainCompletedMs    int64 // how long completed jobs are kept
	RetainCompletedCount int64 // how many completed jobs of a type are kept
	RequestMs            int64 // how long request keys are remembered
	RequestCount         int64 // how many request keys are remembered
	MaxJobs              int64 // that have not ended; 0: no limit, as below
	MaxBytes             int64 // of payloads and results
	MaxPayload           int64 // bytes of one payload
}

// DefaultSettings are in force until the first RegisterBroker.
func DefaultSettings() Settings {
	return Settings{
		MaxAttempts:          3,
		LeaseMs:              30_000,
		WorkerTimeoutMs:      30_000,
		RetainCompletedMs:    24 * 3600 * 1000,
		RetainCompletedCount: 10_000,
		RequestMs:            24 * 3600 * 1000,
		RequestCount:         100_000,
	}
}

// Broker is the registered active broker.
type Broker struct {
	Node    string
	Address string // host:port of its HTTP API
	Epoch   uint64 // fencing number, +1 at each takeover
}

// Meta is the part of the state that is not a collection.
type Meta struct {
	LSN LSN // of the last applied entry
	// TermBase is added to raft's terms to make LSN terms. Adoption raises it
	// so that LSNs go on growing when a cluster with younger terms takes over.
	TermBase uint64
	Now      int64  // the machine's clock, ms
	LastSeq  uint64 // of the youngest job
	Token    uint64 // the last fencing token given, or the floor of the epoch
	// LeasesFrom is when the broker registered, ms. A lease or worker older
	// than that counts from here.
	LeasesFrom     int64
	LastTurn       uint64 // the last turn given to a group
	CompletedTotal uint64 // ever
	DeadTotal      uint64 // ever
	CancelledTotal uint64 // ever
	Cluster        string // made at bootstrap; "" before the first broker
	Lineage        string // made with the document; "" before the first broker
	Broker         Broker
	Settings       Settings
}

// Result is the machine's answer to one mutation.
type Result struct {
	Code Code
	// Jobs are the jobs enqueued, claimed or reported on, as they are now; for
	// Enqueue and Heartbeat one for each item, nil where there is none.
	Jobs []*Job
	// Codes, where the items of a mutation can end differently (Enqueue,
	// Heartbeat), has one for each item. A refused Enqueue adds nothing; its
	// only Code that is not OK points at the item to blame.
	Codes []Code
	// Count is the number of jobs that a Change by filter changed, and Next
	// where to go on if it stopped before the end.
	Count uint64
	Next  Place
	// LSN is that of the first answer, if this one repeats it by its request
	// key: then Code is Duplicate, and each of Jobs only has its id, token and
	// status, but for the jobs of a claim, which are those still held.
	LSN LSN
}

// Machine is the queue's state and the rules that change it. Make one with
// New, Build or Decode. It is not safe for concurrent use.
type Machine struct {
	meta Meta

	// Copy-on-write, shared with views.
	jobs    *btree.BTreeG[*Job] // by status, then seq
	workers *btree.BTreeG[*Worker]
	claims  *btree.BTreeG[*ClaimRecord] // by first token, which is claim order

	// Derived from the above and never encoded.
	ids      map[string]*Job
	queues   map[string]*queue
	ready    *btree.BTreeG[*Job]       // unclaimed, of all types, in claim order
	running  *btree.BTreeG[*Job]       // in progress, by worker, then seq
	retained *btree.BTreeG[*Job]       // completed or cancelled, by end
	byWorker map[string][]*ClaimRecord // in claim order
	timers   *btree.BTreeG[timer]
	counts   Counts

	events []Event
	wanted Worker // the key of a search
}

// queue holds the waiting jobs of one type. It exists while the type has jobs.
type queue struct {
	name   string
	ready  *btree.BTreeG[*Job]
	counts Counts
}

// New returns an empty machine.
func New() *Machine {
	return &Machine{
		meta:     Meta{Settings: DefaultSettings()},
		jobs:     newTree(byStatusSeq),
		workers:  newTree(byName),
		claims:   newTree(byToken),
		ids:      make(map[string]*Job),
		queues:   make(map[string]*queue),
		ready:    newTree(byClaimOrder),
		running:  newTree(byHolder),
		retained: newTree(byEnd),
		byWorker: make(map[string][]*ClaimRecord),
		timers:   newTree(byTime),
	}
}

// Apply applies the log entry at (index, term): first time advances to the
// batch's clock, then the mutations are applied in order, as are the results.
// A takeover extends all leases before time advances (see the package's text).
// b must come from DecodeEntry, which has refused what Apply does not know; the
// machine keeps no reference to it.
func (m *Machine) Apply(index, term uint64, b *fsmpb.Batch) []Result {
	m.forgetEvents()
	m.meta.LSN = LSN{Term: term + m.meta.TermBase, Index: index}
	m.spareLeases(b)
	m.advance(b.NowMs)
	results := make([]Result, len(b.Mutations))
	for i, mut := range b.Mutations {
		results[i] = m.apply(mut)
	}
	return results
}

func (m *Machine) apply(mut *fsmpb.Mutation) Result {
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
	case *fsmpb.Mutation_RegisterBroker:
		return m.registerBroker(op.RegisterBroker)
	}
	panic("fsm: Apply of a batch that DecodeEntry has not checked")
}

// eventsKept bounds the room that is kept for the events of the next entry.
const eventsKept = 4096

// forgetEvents lets go of the jobs in the events of the last entry.
func (m *Machine) forgetEvents() {
	if cap(m.events) > eventsKept {
		m.events = nil
		return
	}
	clear(m.events)
	m.events = m.events[:0]
}

// Events are the status changes that the last Apply made. The slice is valid
// until the next Apply.
func (m *Machine) Events() []Event { return m.events }

// Meta returns the state's scalars.
func (m *Machine) Meta() Meta { return m.meta }

// Job returns the job with that id, or nil.
func (m *Machine) Job(id string) *Job { return m.ids[id] }

// Counts returns the number of jobs by status.
func (m *Machine) Counts() Counts { return m.counts }

// WorkerCount is the number of registered workers.
func (m *Machine) WorkerCount() int { return m.workers.Len() }

// TypeCounts calls fn for every type that has jobs, in no order, until fn
// returns false.
func (m *Machine) TypeCounts(fn func(name string, c Counts) bool) {
	for _, q := range m.queues {
		if !fn(q.name, q.counts) {
			return
		}
	}
}

// Counts is a number of jobs for each status.
type Counts [numStatuses]int

// Of returns the number of jobs in status s.
func (c Counts) Of(s Status) int { return c[s] }

// epochMax keeps the floor of an epoch's tokens far from the end of uint64.
const epochMax = 1<<31 - 1

// tokenFloor is below every token of the epoch, and above those of older ones.
func tokenFloor(epoch uint64) uint64 { return min(epoch, epochMax) << 32 }

// registerBroker puts a new broker in charge. Leases and workers count afresh
// from now (see LeasesFrom), and tokens go on above the new epoch's floor.
func (m *Machine) registerBroker(op *fsmpb.RegisterBroker) Result {
	if !m.mayRegister(op) {
		return Result{Code: OldEpoch}
	}
	m.meta.Broker = Broker{Node: strings.Clone(op.Node), Address: strings.Clone(op.Address), Epoch: op.Epoch}
	m.meta.Cluster, m.meta.Lineage = strings.Clone(op.Cluster), strings.Clone(op.Lineage)
	m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now)
	m.meta.Token = max(m.meta.Token, tokenFloor(op.Epoch))
	if op.Settings != nil {
		m.meta.Settings = settingsFromPB(op.Settings)
	}
	m.retimeWorkers()
	m.retire()
	return Result{}
}

// mayRegister: an older epoch has lost, and two nodes cannot share one.
func (m *Machine) mayRegister(op *fsmpb.RegisterBroker) bool {
	b := &m.meta.Broker
	return op.Epoch > b.Epoch || (op.Epoch == b.Epoch && op.Node == b.Node)
}

// spareLeases lets leases and workers count from the takeover that b begins
// with, if it does, before the time without a leader can cost them anything.
// It touches none of them: their timers are moved when they come up.
func (m *Machine) spareLeases(b *fsmpb.Batch) {
	if len(b.Mutations) == 0 {
		return
	}
	op := b.Mutations[0].GetRegisterBroker()
	if op != nil && m.mayRegister(op) {
		m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now, b.NowMs)
	}
}
