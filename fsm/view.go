package fsm

import (
	"math"

	"osqueue/fsm/btree"
)

// View is the frozen state of the machine at one LSN. It is safe for concurrent use and
// costs nothing to make. A View keeps its jobs in memory.
type View struct {
	meta    Meta
	counts  Counts
	bytes   int64
	jobs    *btree.Tree[*Job]
	workers *btree.Tree[*Worker]
	claims  *btree.Tree[*ClaimRecord]
	running *btree.Tree[*Job]
	typed   *btree.Tree[*Job]
	tagged  *btree.Tree[tagged]

	queues   *btree.Tree[*QueueSettings]
	turns    *btree.Tree[*Turn]
	crons    *btree.Tree[*Cron]
	batches  *btree.Tree[*JobBatch]
	holds    *btree.Tree[*Hold]
	requests *btree.Tree[*RequestRecord]
	tokens   *btree.Tree[*Token]
	figures  *btree.Tree[*Figures]
	hooks    *btree.Tree[*Hook]
	outbox   *btree.Tree[*HookEvent]

	dependents *btree.Tree[dependent]
	ranked     rankedTypes
}

// View returns the current state, frozen, in O(1). It counts as a write to m: the machine
// copies the tree nodes that it changes afterwards.
func (m *Machine) View() *View {
	m.figureGen++ // the view has the present ones
	m.rankTypes()
	return &View{
		meta:    m.meta,
		counts:  m.counts,
		bytes:   m.Bytes(),
		jobs:    m.jobs.Copy(),
		workers: m.workers.Copy(),
		claims:  m.claims.Copy(),
		running: m.running.Copy(),
		typed:   m.typed.Copy(),
		tagged:  m.tagged.Copy(),

		queues:   m.settings.Copy(),
		turns:    m.turns.Copy(),
		crons:    m.crons.Copy(),
		batches:  m.batches.Copy(),
		holds:    m.holds.Copy(),
		requests: m.requests.Copy(),
		tokens:   m.tokens.Copy(),
		figures:  m.figures.Copy(),
		hooks:    m.hooks.Copy(),
		outbox:   m.outbox.Copy(),

		dependents: m.dependents.Copy(),
		ranked:     m.ranked.copy(),
	}
}

// Meta returns the state's scalars.
func (v *View) Meta() Meta { return v.meta }

// LSN returns the LSN of the last entry applied to the state.
func (v *View) LSN() LSN { return v.meta.LSN }

// Counts returns the number of jobs by status.
func (v *View) Counts() Counts { return v.counts }

// Jobs calls fn for the jobs in status s whose Seq is greater than after, in
// FIFO order, until fn returns false.
func (v *View) Jobs(s Status, after uint64, fn func(*Job) bool) {
	if after == math.MaxUint64 {
		return // no Seq is greater, and after+1 would wrap to 0
	}
	v.jobs.Ascend(&Job{Status: s, Seq: after + 1}, func(j *Job) bool {
		return j.Status == s && fn(j)
	})
}

// Workers calls fn for the registered workers by name until fn returns false.
func (v *View) Workers(fn func(*Worker) bool) { v.workers.Scan(fn) }

// WorkerCount returns the number of registered workers.
func (v *View) WorkerCount() int { return v.workers.Len() }

// Claims calls fn for the remembered claims, oldest first, until fn returns
// false.
func (v *View) Claims(fn func(*ClaimRecord) bool) { v.claims.Scan(fn) }
