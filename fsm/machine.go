package fsm

import (
	"strings"

	"github.com/tidwall/btree"

	"osqueue/fsm/fsmpb"
)

// Settings are the server settings that affect decisions of the machine. The leader puts
// them into RegisterBroker; they are constant until the next one.
type Settings struct {
	MaxAttempts          int32 // of a job without its own
	LeaseMs              int64 // of a claim and job without their own
	WorkerTimeoutMs      int64 // silence after which a registered worker is dead
	RetainCompletedMs    int64 // how long completed jobs are kept
	RetainCompletedCount int64 // how many completed jobs of a type are kept
	RequestMs            int64 // how long request keys are remembered
	RequestCount         int64 // how many request keys are remembered
	MaxJobs              int64 // that have not ended; 0: no limit, in all three
	MaxBytes             int64 // of payloads, results and logs
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
	// TermBase is added to raft's terms to make LSN terms. Adoption raises it, so that
	// LSNs keep growing when a cluster with lower terms takes over.
	TermBase uint64
	Now      int64  // the machine's clock, ms
	LastSeq  uint64 // of the youngest job
	Token    uint64 // the last fencing token, or the floor of the epoch
	// LeasesFrom is when the broker registered, ms. The time of an older lease or worker
	// counts from here.
	LeasesFrom     int64
	LastTurn       uint64 // the last turn that a group got
	CompletedTotal uint64 // ever
	DeadTotal      uint64 // ever
	CancelledTotal uint64 // ever
	Cluster        string // made at bootstrap; "" before the first broker
	Lineage        string // made with the document; "" before the first broker
	Broker         Broker
	Settings       Settings
	Extra          string // unknown fields of the document, as in Details.Extra
	Level          uint32 // the feature level (level.go); BaseLevel in a state without the field
}

// Result is the machine's answer to one mutation.
type Result struct {
	Code Code
	// Jobs are the jobs enqueued, claimed or reported on, in their present form. For
	// Enqueue and Heartbeat there is one for each item, nil if it has no job.
	Jobs []*Job
	// Codes has one code for each item of a mutation whose items can end differently
	// (Enqueue, Heartbeat). A refused Enqueue adds nothing; its only Code that is not OK
	// marks the item at fault.
	Codes []Code
	// Count is the number of jobs that a Change by filter changed. Next is the place to
	// continue from if it stopped before the end.
	Count uint64
	Next  Place
	// LSN is the LSN of the first answer if this one repeats it by its request key. Code
	// is Duplicate then, and Jobs have only their id, token and status. A repeated claim
	// returns the full jobs whose leases are still valid.
	LSN LSN
}

// Machine is the state of the queue with the rules that change it. Make one with New, a
// Builder or Decode. It is not safe for concurrent use.
type Machine struct {
	meta Meta

	// Copy-on-write, shared with views. The first three and the last eight are
	// the state.
	jobs     *btree.BTreeG[*Job] // by status, then seq
	workers  *btree.BTreeG[*Worker]
	claims   *btree.BTreeG[*ClaimRecord] // by first token, which is claim order
	running  *btree.BTreeG[*Job]         // in progress, by worker, then seq
	typed    *btree.BTreeG[*Job]         // by type, then status, then seq
	tagged   *btree.BTreeG[tagged]       // by tag or batch, then status, then seq
	settings *btree.BTreeG[*QueueSettings]
	turns    *btree.BTreeG[*Turn]
	crons    *btree.BTreeG[*Cron]
	batches  *btree.BTreeG[*JobBatch]
	holds    *btree.BTreeG[*Hold]
	requests *btree.BTreeG[*RequestRecord] // by time, then key
	tokens   *btree.BTreeG[*Token]         // by id
	figures  *btree.BTreeG[*Figures]       // by type; written in place, see figures.go

	// Derived from the above and never encoded.
	ids             map[string]*Job
	queues          map[string]*queue
	heads           *btree.BTreeG[*queue]     // types that a claim can take a job of, by their best job
	byWorker        map[string][]*ClaimRecord // in claim order
	byKey           map[string]*RequestRecord
	timers          *btree.BTreeG[timer]
	holders         *btree.BTreeG[holder] // jobs by the unique key that they hold
	reservationEnds *btree.BTreeG[*Hold]  // by end
	waiters         *btree.BTreeG[waiter] // blocked jobs by the job that they wait for
	waited          map[string]waiting    // their number, by the job that they wait for
	unsettled       *btree.BTreeG[string] // ids of jobs with waiters that must change
	cronsDue        *btree.BTreeG[*Cron]  // by next time
	tokenIDs        map[string]*Token
	tokenEnds       *btree.BTreeG[*Token]    // the tokens that expire, by the time at which they do
	idle            *btree.BTreeG[*JobBatch] // batches without pending jobs, by idleSince
	counts          Counts
	bytes           int64

	requestWeight int64  // of all requests
	figureGen     uint64 // of the figures that no View has

	max budgets // of each entry

	// The entry that is applied.
	events   []Event
	random   uint64
	budget   int      // waiters that may still be settled
	firings  int      // timers that may still fire
	removals int      // jobs that retention may still remove
	touched  []*queue // types with jobs that became claimable
	dirty    []*queue // types whose retention must be checked
	wanted   Worker   // the key of a search
	lookup   []byte   // the key of a search
	outcomes []outcome

	building bool // the state is being restored: only derived fields change
}

// budgets limit the work of one entry, and the number of figures. They are constant except in tests, which exhaust
// them with short logs.
type budgets struct {
	settle, fire, retire int
	types                int // with figures of their own, in the state
}

// New returns an empty machine.
func New() *Machine {
	return &Machine{
		meta:            Meta{Settings: DefaultSettings(), Level: BaseLevel},
		jobs:            newTree(byStatusSeq),
		workers:         newTree(byName),
		claims:          newTree(byToken),
		running:         newTree(byHolder),
		typed:           newTree(byType),
		tagged:          newTree(byLabel),
		settings:        newTree(bySettings),
		turns:           newTree(byTurn),
		crons:           newTree(byCron),
		batches:         newTree(byBatch),
		holds:           newTree(byHold),
		requests:        newTree(byRequest),
		tokens:          newTree(byTokenID),
		figures:         newTree(byFigures),
		figureGen:       1,
		tokenIDs:        make(map[string]*Token),
		tokenEnds:       newTree(byExpiry),
		ids:             make(map[string]*Job),
		queues:          make(map[string]*queue),
		heads:           newTree(byBest),
		byWorker:        make(map[string][]*ClaimRecord),
		byKey:           make(map[string]*RequestRecord),
		timers:          newTree(byTime),
		holders:         newTree(byKeySeq),
		reservationEnds: newTree(byUntil),
		waiters:         newTree(byWaited),
		waited:          make(map[string]waiting),
		unsettled:       newTree(func(a, b string) bool { return a < b }),
		cronsDue:        newTree(byNext),
		idle:            newTree(byIdle),
		max:             budgets{settle: settleMax, fire: fireMax, retire: retireMax, types: FiguresMax},
	}
}

// Apply applies the log entry at (index, term): it first advances the time to the batch's
// clock, then applies the mutations in order and returns one result for each. A takeover
// extends all leases before the time advances (see the package documentation). b must
// come from DecodeEntry, which refuses entries that Apply does not know. The machine
// keeps no reference to b.
func (m *Machine) Apply(index, term uint64, b *fsmpb.Batch) []Result {
	m.begin(b)
	m.meta.LSN = LSN{Term: term + m.meta.TermBase, Index: index}
	m.extendLeases(b)
	m.advance(b.NowMs)
	results := make([]Result, len(b.Mutations))
	for i, mut := range b.Mutations {
		results[i] = m.once(mut)
	}
	return results
}

// begin resets the fields of the previous entry.
func (m *Machine) begin(b *fsmpb.Batch) {
	m.forgetEvents()
	m.random, m.budget, m.firings, m.removals = b.Random, m.max.settle, m.max.fire, m.max.retire
	for _, q := range m.touched {
		q.arrived, q.touched = 0, false
	}
	m.touched = m.touched[:0]
}

// apply applies one mutation and its consequences.
func (m *Machine) apply(mut *fsmpb.Mutation) Result {
	res := m.decide(mut)
	m.settle()
	m.retire()
	return res
}

// decide applies one mutation.
func (m *Machine) decide(mut *fsmpb.Mutation) Result {
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
	case *fsmpb.Mutation_ForceComplete:
		return m.forceComplete(op.ForceComplete)
	case *fsmpb.Mutation_RegisterWorker:
		return m.registerWorker(op.RegisterWorker)
	case *fsmpb.Mutation_WorkerDead:
		return m.workerDead(op.WorkerDead)
	case *fsmpb.Mutation_RegisterBroker:
		return m.registerBroker(op.RegisterBroker)
	case *fsmpb.Mutation_Change:
		return m.change(op.Change)
	case *fsmpb.Mutation_SetQueue:
		return m.setQueue(op.SetQueue)
	case *fsmpb.Mutation_Group:
		return m.group(op.Group)
	case *fsmpb.Mutation_Announce:
		return m.announce(op.Announce)
	case *fsmpb.Mutation_SetExtra:
		return m.setExtra(op.SetExtra)
	case *fsmpb.Mutation_RaiseLevel:
		return m.raiseLevel(op.RaiseLevel)
	case *fsmpb.Mutation_SetClock:
		return m.setClock(op.SetClock)
	case *fsmpb.Mutation_CheckState, *fsmpb.Mutation_StateChecked:
		return Result{} // they concern the nodes; the state is unchanged
	}
	return m.decideRare(mut)
}

// decideRare applies a mutation about a schedule or a token.
func (m *Machine) decideRare(mut *fsmpb.Mutation) Result {
	switch op := mut.Op.(type) {
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
	case *fsmpb.Mutation_CreateToken:
		return m.createToken(op.CreateToken)
	case *fsmpb.Mutation_RevokeToken:
		return m.revokeToken(op.RevokeToken)
	case *fsmpb.Mutation_TouchTokens:
		return m.touchTokens(op.TouchTokens)
	}
	panic("fsm: Apply of a batch that DecodeEntry has not checked")
}

// eventsKept is the largest capacity of the event slice that the next entry reuses.
const eventsKept = 4096

// forgetEvents releases the jobs in the events of the last entry.
func (m *Machine) forgetEvents() {
	if cap(m.events) > eventsKept {
		m.events = nil
		return
	}
	clear(m.events)
	m.events = m.events[:0]
}

// Events returns the effects of the last Apply. The slice is valid until the next Apply.
func (m *Machine) Events() []Event { return m.events }

// Meta returns the state's scalars.
func (m *Machine) Meta() Meta { return m.meta }

// Job returns the job with that id, or nil.
func (m *Machine) Job(id string) *Job { return m.ids[id] }

// Counts returns the number of jobs by status.
func (m *Machine) Counts() Counts { return m.counts }

// WorkerCount returns the number of registered workers.
func (m *Machine) WorkerCount() int { return m.workers.Len() }

// TypeStats are the figures of one type.
type TypeStats struct {
	Counts Counts
	Bytes  int64 // of payloads, results and logs
}

// TypeStats returns the figures of one type.
func (m *Machine) TypeStats(name string) TypeStats {
	if q := m.queues[name]; q != nil {
		return TypeStats{q.counts, q.bytes}
	}
	return TypeStats{}
}

// Types calls fn for every type that has jobs, in no particular order, until fn returns
// false.
func (m *Machine) Types(fn func(name string, s TypeStats) bool) {
	for _, q := range m.queues {
		if !q.counts.empty() && !fn(q.name, TypeStats{q.counts, q.bytes}) {
			return
		}
	}
}

// Counts is a number of jobs for each status.
type Counts [numStatuses]int

func (c Counts) empty() bool { return c == Counts{} }

// notEnded returns the number of jobs that have not ended.
func (c Counts) notEnded() int {
	return c[Blocked] + c[Scheduled] + c[Unclaimed] + c[InProgress]
}

// Of returns the number of jobs in status s.
func (c Counts) Of(s Status) int { return c[s] }

// epochMax keeps the token floor of an epoch far below the largest uint64.
const epochMax = 1<<31 - 1

// tokenFloor returns a number below every token of the epoch and above every token of
// older epochs.
func tokenFloor(epoch uint64) uint64 { return min(epoch, epochMax) << 32 }

// registerBroker makes a node the active broker. Leases and workers count from now again
// (see LeasesFrom), and tokens continue above the floor of the new epoch.
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
	m.reviewRetention()
	m.boundRequests()
	m.events = append(m.events, Event{Kind: BrokerRegistered, Name: m.meta.Broker.Node})
	return Result{}
}

// mayRegister reports whether a broker may register: its epoch is not old, and no other
// node has the same epoch.
func (m *Machine) mayRegister(op *fsmpb.RegisterBroker) bool {
	b := &m.meta.Broker
	return op.Epoch > b.Epoch || (op.Epoch == b.Epoch && op.Node == b.Node)
}

// extendLeases sets LeasesFrom if b begins with a takeover, before the time without a
// leader can end a lease or a worker. It changes no lease and no worker: their timers
// move when they come up.
func (m *Machine) extendLeases(b *fsmpb.Batch) {
	if len(b.Mutations) == 0 {
		return
	}
	op := b.Mutations[0].GetRegisterBroker()
	if op != nil && m.mayRegister(op) {
		m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now, b.NowMs)
	}
}
