// Package fsm implements the queue: the job model and the deterministic machine that
// applies mutations to it.
//
// # Problem
//
// Several nodes apply the same log and must reach the same state, at any time, in any
// build, replayed from any snapshot. So the machine is a pure function of its log: it has
// no clock, no randomness, no I/O and no goroutine. The leader decides ids, times and
// everything else that does not follow from the log, and puts them into the mutation.
//
// DESIGN.md specifies each mutation, rule by rule. The machine and the naive model of its
// tests implement these rules independently.
//
// # States of a job
//
//	           jobs that it         due                claim                 complete
//	           waits for end
//	blocked ───────────▶ scheduled ─────▶ unclaimed ─────────▶ in_progress ────────▶ completed
//	                         ▲               ▲                  │  │  │
//	                         │               │  release, lease  │  │  │  no attempts left,
//	                         │               └──────────────────┘  │  │  or failed permanently
//	                         └─────────────────────────────────────┘  └────────────▶ dead
//	                               failed, with a delay
//
// A job that has not ended can be cancelled. A running job is cancelled when its worker
// reports or its lease expires, every other job at once. A dead or cancelled job can be
// retried. ForceComplete completes a job in any status: clients that know no leases
// report in this way.
//
// A job keeps its place in the FIFO order (Seq) over all attempts. A claim takes the
// highest priority first, then rotates over the groups of a type, then takes the lowest
// Seq, over all types that the claim names and whose limits allow it.
//
// # State and derived data
//
// The state is the content of a snapshot: scalars, jobs, and a few kinds of records
// (records.go). Everything else (the next job, the timers, the waiters) is an index. A
// restored machine rebuilds the indexes and must get the same ones, so a decision may
// depend on the state only, never on its history.
//
// Each collection (types, claims, jobs that wait, workers, requests, ...) is a table: a field
// of Machine with its trees, and with the rules that need nothing else. Machine has what
// several tables share, and the calls of its users. An entry applies one log entry: it has
// the events and the budgets of the entry, and the mutations are its methods. Those about
// schedules and workers have types of their own.
//
//	machine.go  trees.go   index.go   timers/    the state, its indexes and timers
//	btree/      idtable/   recordio/             ordered sets, jobs by id, streams of records
//	outbox/     figures/   tenants/              webhooks, counts by minute, names with owners
//	answers/    tokens/    usage/                remembered answers, access tokens, quotas
//	queue.go    rate.go    settings.go claim.go  which jobs may be claimed, in which order
//	enqueue.go  after.go   batch.go              new jobs and their dependencies
//	uniques/    waits/                           unique keys, jobs that wait
//	report.go   backoff/   worker.go             the ends of attempts
//	change.go   cron.go    request.go retain.go  changes by requests and by time
//	advance.go  apply.go                         what falls due, and the mutations of an entry
//	build.go    snapshot.go snapshotjobs.go      restored states
//
// # Time and cost
//
// Every log entry (fsmpb.Batch) carries the leader's clock. Apply first advances the
// machine's clock to it, never backwards, and fires the timers that fell due. Then it
// applies the mutations in order. NextDeadline returns when an idle machine needs an
// entry, which may be empty.
//
// Every mutation is O(log n) in the number of jobs, types, groups, leases and schedules; only
// a change of a type's settings takes time in proportion to the number of its groups. View is
// O(1), because the trees that readers need are copy-on-write. DESIGN.md, sections 22 to 24,
// has takeovers, repeated reports, and the memory of a job.
//
// # Failure stance
//
// A node stops at an entry that this version does not understand; it never skips one. A
// snapshot is checked completely before it replaces a state. Decode reads, decodes and adds
// jobs in several goroutines, which end before it returns (recordio.Stages). Apply cannot fail:
// a refused mutation has a Code in its Result.
//
// A Machine is not safe for concurrent use. Its owner serialises Apply and View, which
// are writes, with each other and with the readers of live state. Views and Jobs are
// immutable and may be shared.
package fsm
