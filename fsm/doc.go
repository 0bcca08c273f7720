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
//	machine.go  trees.go   timer.go   index.go   the state, its indexes and timers
//	btree/      idtable/   figures/   recordio/  ordered sets, jobs by id, counts by minute, streams of records
//	queue.go    rate.go    settings.go claim.go  which jobs may be claimed, in which order
//	enqueue.go  unique.go  after.go   batch.go   new jobs and their dependencies
//	report.go   backoff.go worker.go             the ends of attempts
//	change.go   cron.go    request.go retain.go  changes by requests and by time
//	advance.go  apply.go                         what falls due, and the mutations of an entry
//	build.go    snapshot.go snapshotjobs.go      restored states
//
// # Time
//
// Every log entry (fsmpb.Batch) carries the leader's clock. Apply first advances the
// machine's clock to it, never backwards, and fires the timers that fell due. Then it
// applies the mutations in order. NextDeadline returns when an idle machine needs an
// entry, which may be empty.
//
// # Takeover
//
// While there is no leader, workers cannot extend leases or send heartbeats. So an entry
// that begins with an accepted RegisterBroker is a takeover: before the time advances,
// the times of all leases and workers are set to count from the entry's clock. No lease
// expires and no worker is declared dead because of a gap, however long; the workers that
// did die are detected one full timeout later. Scheduled jobs and retention follow the
// clock, with or without a gap.
//
// A RegisterBroker that is not the first mutation of its entry, or that is refused, comes
// after the time has advanced: leases that expired by then stay expired. A leader that
// wants old leases to expire, for example when it takes a queue over from a legacy
// broker, proposes an empty entry first.
//
// # Fencing
//
// Each claim gets a token that is greater than every earlier token of any broker of the
// lineage: epoch·2^32 + counter. A report with a token is accepted only for the claim
// that got the token. A report without one, from a legacy client, is matched by the
// worker's name.
//
// # Reports whose answer was lost
//
// A repeated Enqueue is recognised by its ids, a repeated Claim by its request id, a
// repeated Complete, Fail or Release by its token and the end of the attempt. Each gets
// the first answer again, with code Duplicate, and changes nothing. A repeated mutation
// with a request key gets its first answer for a day.
//
// # Feature levels
//
// A changed rule checks the feature level of the state (level.go), which all nodes share.
// The leader raises it when all nodes know the rule. Entries carry the lowest level that
// describes them, so that a node that knows fewer levels reads them until the level is
// raised. LevelOf has a case for each kind and field that came with a level.
//
// # Cost
//
// Every mutation is O(log n) in the number of jobs, types, groups, leases and schedules.
// A change of a type's settings takes time in proportion to the number of its groups.
// View is O(1), because the trees that readers need are copy-on-write. The timer of a
// lease moves only when its old deadline comes up, so a heartbeat costs two tree writes,
// and a takeover extends all leases by one assignment. In the entry of a takeover only
// the timers whose old deadline is in the gap fire: O(log n) for each, once, in place of
// the expiry. The timers of all registered workers are set again.
//
// # Memory
//
// A waiting job with an id of 36 bytes and a payload of 200, without options, takes 396 bytes,
// measured as heap in use with a million of them:
//
//	112  Job
//	240  its id and payload, in one allocation of 236 bytes
//	 28  its places in Machine.jobs, Machine.typed and group.ready: 8 bytes in a node that is
//	     almost full, because the queue grew at its end (package btree)
//	 15  its place in Machine.ids: 8 bytes and one of the hash, in buckets that are 60 % full
//
// The name of the type and the options are shared by all jobs that have the same. A claim adds
// an Execution, in one allocation with the new Job. A job that was restored from a snapshot
// has the same layout, unless it has an Execution or Details.
//
// # Failure stance
//
// A node stops at an entry that this version does not understand; it never skips one. A
// snapshot is checked completely before it replaces a state. Decode reads, decodes and adds
// jobs in several goroutines, which end before it returns (package inorder). Apply cannot fail:
// a refused mutation has a Code in its Result.
//
// A Machine is not safe for concurrent use. Its owner serialises Apply and View, which
// are writes, with each other and with the readers of live state. Views and Jobs are
// immutable and may be shared.
package fsm
