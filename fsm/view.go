package fsm

import (
	"iter"

	"osqueue/fsm/artefacts"
	"osqueue/fsm/btree"
	"osqueue/fsm/outbox"
	"osqueue/fsm/waits"
)

// View is the frozen state of the machine at one LSN. It is safe for concurrent use and
// costs nothing to make. A View keeps its jobs in memory.
type View struct {
	meta    *Meta
	counts  Counts
	stuck   int
	bytes   int64
	jobs    *btree.Tree[*Job]
	workers *btree.Tree[*Worker]
	claims  *btree.Tree[*ClaimRecord]
	running *btree.Tree[*Job]
	typed   *btree.Tree[*Job]
	tagged  *btree.Tree[tagged]

	queues   *btree.Tree[*QueueSettings]
	turns    *btree.Tree[*Turn]
	limits   *btree.Tree[*Limit]
	parked   *btree.Tree[*ParkedLane]
	crons    *btree.Tree[*Cron]
	batches  *btree.Tree[*JobBatch]
	holds    *btree.Tree[*Hold]
	requests *btree.Tree[*RequestRecord]
	tokens   *btree.Tree[*Token]
	figures  *btree.Tree[*Figures]

	dependents *btree.Tree[waits.Dependent]
	ranked     rankedTypes

	outbox.State // the hooks
	artefacts.Frozen
}

// View returns the current state, frozen, in O(1). It counts as a write to m: the machine
// copies the tree nodes that it changes afterwards.
func (m *Machine) View() *View {
	m.figures.Freeze()
	m.types.rank()
	return &View{
		meta:    m.Meta(),
		counts:  m.counts,
		stuck:   m.Stuck(),
		bytes:   m.Bytes(),
		jobs:    m.jobs.Copy(),
		workers: m.workers.Copy(),
		claims:  m.claims.Records.Copy(),
		running: m.running.Copy(),
		typed:   m.types.typed.Copy(),
		tagged:  m.tagged.Copy(),

		queues:   m.types.settings.Copy(),
		turns:    m.types.turns.Copy(),
		limits:   m.types.limits.records.Copy(),
		parked:   m.types.limits.parked.Copy(),
		crons:    m.crons.Copy(),
		batches:  m.batches.Copy(),
		holds:    m.uniques.Copy(),
		requests: m.requests.Records.Copy(),
		tokens:   m.tokens.Copy(),
		figures:  m.figures.Copy(),

		dependents: m.waits.Dependents.Copy(),
		ranked:     m.types.ranked.copy(),

		State:  m.hooks.Freeze(),
		Frozen: m.artefacts.Freeze(),
	}
}

// Meta returns the state's scalars, which do not change.
func (v *View) Meta() *Meta { return v.meta }

// LSN returns the LSN of the last entry applied to the state.
func (v *View) LSN() LSN { return v.meta.LSN() }

// Now returns the clock of the machine at that entry, in ms.
func (v *View) Now() int64 { return v.meta.NowMs }

// Counts returns the number of jobs by status.
func (v *View) Counts() Counts { return v.counts }

// Stuck returns the number of blocked jobs that keep waiting for a job or batch that has failed, once for each of these.
func (v *View) Stuck() int { return v.stuck }

// Workers iterates over the registered workers whose name is from or later, in the order of names.
func (v *View) Workers(from string) iter.Seq[*Worker] { return v.workers.From(&Worker{Name: from}) }

// WorkerCount returns the number of registered workers.
func (v *View) WorkerCount() int { return v.workers.Len() }

// Bytes returns the size of all payloads, results and logs.
func (v *View) Bytes() int64 { return v.bytes }

// Worker returns the registered worker of that name, or nil.
func (v *View) Worker(name string) *Worker { return v.workers.Find(&Worker{Name: name}) }

// Queue returns the settings of a type, or nil if it has none.
func (v *View) Queue(name string) *QueueSettings { return v.queues.Find(&QueueSettings{Name: name}) }

// Queues calls fn for the types with settings, in the order of names, until
// fn returns false.
func (v *View) Queues(fn func(*QueueSettings) bool) { v.queues.Scan(fn) }

// Cron returns the schedule of that name, or nil.
func (v *View) Cron(name string) *Cron { return v.crons.Find(&Cron{Name: name}) }

// Crons iterates over the schedules whose name is from or later, in the order of names.
func (v *View) Crons(from string) iter.Seq[*Cron] { return v.crons.From(&Cron{Name: from}) }

// CronCount returns the number of schedules.
func (v *View) CronCount() int { return v.crons.Len() }

// Batch returns the batch with that id, or nil.
func (v *View) Batch(id string) *JobBatch { return v.batches.Find(&JobBatch{Id: id}) }

// Batches iterates over the batches whose id is from or later, in the order of ids.
func (v *View) Batches(from string) iter.Seq[*JobBatch] { return v.batches.From(&JobBatch{Id: from}) }

// Requests calls fn for the remembered requests, oldest first, until fn returns
// false.
func (v *View) Requests(fn func(*RequestRecord) bool) { v.requests.Scan(fn) }
