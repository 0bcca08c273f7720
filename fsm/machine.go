package fsm

import (
	"osqueue/fsm/answers"
	"osqueue/fsm/artefacts"
	"osqueue/fsm/btree"
	"osqueue/fsm/figures"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/idtable"
	"osqueue/fsm/job"
	"osqueue/fsm/outbox"
	"osqueue/fsm/timers"
	"osqueue/fsm/tokens"
	"osqueue/fsm/uniques"
	"osqueue/fsm/usage"
	"osqueue/fsm/waits"
)

// Settings are in force until the next RegisterBroker. They do not change.
type Settings = fsmpb.Settings

// DefaultSettings are in force until the first RegisterBroker.
func DefaultSettings() *Settings {
	return &Settings{
		MaxAttempts:          3,
		LeaseMs:              30_000,
		WorkerTimeoutMs:      30_000,
		RetainCompletedMs:    24 * 3600 * 1000,
		RetainCompletedCount: 10_000,
		RequestMs:            24 * 3600 * 1000,
		RequestCount:         100_000,
	}
}

// Meta is the part of the state that is not a collection.
type Meta = fsmpb.Meta

// LSN is the log sequence number of an entry.
type LSN = fsmpb.LSN

// ParseLSN reads the text of LSN.String. Its error wraps ErrBadLSN.
func ParseLSN(s string) (LSN, error) { return fsmpb.ParseLSN(s) }

// ErrBadLSN is wrapped by ParseLSN.
var ErrBadLSN = fsmpb.ErrBadLSN

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
	// Count is the number of jobs that a Change by filter changed, or the revision of the job of an EditJob. Next is the place to
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
	meta *Meta // changed in place

	// Copy-on-write, shared with views. The first three and the last eleven are
	// the state.
	jobs      *btree.Tree[*Job] // by status, then seq
	workers   workers
	claims    answers.Claims
	running   *btree.Tree[*Job]   // in progress, by worker, then seq
	tagged    *btree.Tree[tagged] // by tag or batch, then status, then seq
	types     types
	crons     btree.Table[Cron] // by name; due: at their next times
	batches   batches
	uniques   uniques.Table
	requests  answers.Requests
	tokens    tokens.Table
	figures   figures.Table
	hooks     outbox.Outboxes
	artefacts artefacts.Table

	// Derived from the above and never encoded.
	ids       *idtable.Table[Job]
	timers    timers.Set
	waits     waits.Graph
	sequences sequences
	usage     usage.Table
	counts    Counts
	bytes     int64

	max budgets // of each entry

	entry entry // the one that is applied
}

// budgets limit the work of one entry. They are constant except in tests, which exhaust
// them with short logs.
type budgets struct {
	settle, fire, retire, park int
}

// Events returns the effects of the last Apply. The slice is valid until the next Apply.
func (m *Machine) Events() []Event { return m.entry.events }

// Meta returns a copy of the state's scalars.
func (m *Machine) Meta() *Meta { return fsmpb.Clone(m.meta) }

// LSN returns the LSN of the last applied entry.
func (m *Machine) LSN() LSN { return m.meta.LSN() }

// Now returns the machine's clock, in ms.
func (m *Machine) Now() int64 { return m.meta.NowMs }

// Job returns the job with that id, or nil.
func (m *Machine) Job(id string) *Job { return m.ids.Get(id) }

// Counts returns the number of jobs by status.
func (m *Machine) Counts() Counts { return m.counts }

// Stuck returns the number of blocked jobs that keep waiting for a job or batch that has failed, once for each of these.
func (m *Machine) Stuck() int { return m.waits.Stuck() }

// Bytes returns the size of all jobs, batches and schedules, as quotas count it.
func (m *Machine) Bytes() int64 { return m.bytes + m.usage.Records }

// WorkerCount returns the number of registered workers.
func (m *Machine) WorkerCount() int { return m.workers.Len() }

// TypeStats are the figures of one type.
type TypeStats struct {
	Counts Counts
	Bytes  int64 // of payloads, results and logs
}

// TypeStats returns the figures of one type.
func (m *Machine) TypeStats(name string) TypeStats {
	if q := m.types.queues[name]; q != nil {
		return TypeStats{q.counts, q.bytes}
	}
	return TypeStats{}
}

// Types calls fn for every type that has jobs, in no particular order, until fn returns
// false.
func (m *Machine) Types(fn func(name string, s TypeStats) bool) {
	for _, q := range m.types.queues {
		if !q.counts.Empty() && !fn(q.name, TypeStats{q.counts, q.bytes}) {
			return
		}
	}
}

// Counts is a number of jobs for each status.
type Counts = job.Counts

// epochMax keeps the token floor of an epoch far below the largest uint64.
const epochMax = 1<<31 - 1

// tokenFloor returns a number below every token of the epoch and above every token of
// older epochs.
func tokenFloor(epoch uint64) uint64 { return min(epoch, epochMax) << 32 }

// Transplant makes the state of a version of the document, adopted, the state of a cluster whose
// raft is at term. The step gets an LSN term of its own: lsnTerm, or raft's term if that is
// greater.
func (m *Machine) Transplant(cluster, adopted string, term, lsnTerm uint64) {
	m.meta.Adopted = adopted
	m.meta.Cluster = cluster
	m.meta.Term = max(lsnTerm, term)
	m.meta.Index++
	m.meta.TermBase = m.meta.Term - term
}
