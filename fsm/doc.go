// Package fsm is the queue itself: the job model and the deterministic machine
// that applies mutations to it.
//
// # Problem
//
// Several nodes apply the same log and must end in the same state, at any
// time, in any build, replayed from any snapshot. So the machine is a pure
// function of its log: no clock, no randomness, no I/O, no goroutine. Ids,
// times and whatever else the log cannot imply are decided by the leader and
// arrive inside the mutation.
//
// DESIGN.md says what each mutation does, rule by rule; the machine and the
// naive model of its tests are two readings of it.
//
// # States of a job
//
//	           what it waits        due                claim                 complete
//	           for is over
//	blocked ───────────▶ scheduled ─────▶ unclaimed ─────────▶ in_progress ────────▶ completed
//	                         ▲               ▲                  │  │  │
//	                         │               │  release, lease  │  │  │  no attempts left,
//	                         │               └──────────────────┘  │  │  or failed for good
//	                         └─────────────────────────────────────┘  └────────────▶ dead
//	                               failed, with a delay
//
// Whatever has not ended can be cancelled: at once, or while it runs when its
// worker reports or its lease ends. What is dead or cancelled can be retried. By
// force a job is completed from wherever it is: clients of systems without leases
// report like that.
//
// A job keeps its place in the FIFO order (Seq) over all attempts. Claims take
// higher priorities first, then rotate over the groups of a type, then take the
// lowest Seq, over all types that the claim names and whose limits allow it.
//
// # State and what follows from it
//
// The state is what snapshots have: scalars, jobs, and a few kinds of records
// (records.go). Everything else (who is next, what falls due, who waits for whom)
// is an index that a restored machine makes anew, and must make equal: a decision
// may look at the state only, never at how it came about.
//
//	enqueue.go  unique.go  after.go  batch.go    what comes in, and what it waits for
//	queue.go    rate.go    settings.go claim.go  what may be claimed, in which order
//	report.go   backoff.go worker.go             how attempts end
//	change.go   cron.go    request.go retain.go  what people and time do
//	index.go    timer.go   build.go              how it is kept together
//
// # Time
//
// Every batch carries the leader's clock. Apply first advances the machine's
// clock to it, never backwards, and does what fell due, then applies the
// mutations in order. NextDeadline tells the leader when an idle machine needs
// an (empty) batch.
//
// # Takeover
//
// While there is no leader nobody can renew a lease or give a sign of life. So
// an entry that begins with a RegisterBroker that is accepted is a takeover:
// before time advances to it, every lease and every worker's time counts from
// the entry's clock. No job goes back and no worker is declared dead for a
// gap, however long; those that are gone indeed are found out one full time
// after it. Scheduled jobs and retention wait for nobody and go by the clock,
// gap or not.
//
// A RegisterBroker further back in its entry, or one that is refused, comes
// after time has advanced and saves nothing that has run out by then. So a
// leader that means to let old leases run out, as when it takes a queue over
// from a broker of another kind, proposes an empty batch first.
//
// # Fencing
//
// Each claim gets a token that is greater than every token before it, from any
// broker of the lineage: epoch·2^32 + counter. A report that carries a token
// is accepted only for the claim that got it. A report without one (clients of
// older systems have none) is matched by the worker's name.
//
// # Reports whose answer was lost
//
// A repeated Enqueue finds its ids, a repeated Claim its request id, a
// repeated Complete, Fail or Release its token and how the attempt ended. Each
// gets the first answer again, with code Duplicate, and changes nothing. A
// mutation with a request key gets its first answer for a day.
//
// # Feature levels
//
// A rule that changes asks for the level of the state (level.go), which all nodes
// share and the leader raises when all of them know the rule. Entries, snapshots and
// documents carry the lowest level that describes them, so that the release before
// reads them until the level is raised. A new kind of mutation, or a new field in one,
// has a case in LevelOf.
//
// # Cost
//
// Every mutation is O(log n) in the number of jobs, types, groups, leases and
// schedules; a change of a type's settings takes time in the number of its groups.
// View is O(1): the trees
// that readers need are copy-on-write. Leases are moved in the timer tree only
// when their old deadline comes up, so a heartbeat costs two tree writes, and a
// takeover extends every lease by one assignment. What comes up in its entry
// are the leases whose old deadline fell into the gap: O(log n) for each, once,
// in place of its expiry. Registered workers are all set anew.
//
// # Failure stance
//
// An entry that this version does not understand is an error to stop at, not
// to skip. A snapshot is checked in full before it replaces anything. Apply
// itself cannot fail: what a mutation may not do is a Code in its Result.
//
// A Machine is not safe for concurrent use. Its owner serialises Apply and
// View, which are writes, with each other and with the readers of live state.
// Views and Jobs are immutable and may be shared freely.
package fsm
