// Package cluster runs one node: raft below, the machine in it, the fence and
// the flusher above.
//
// # Problem
//
// Raft elects a leader and replicates the log, but that leader may not answer
// yet: another cluster, or an older broker, may own the document in the
// bucket. And when it does answer, every answer must be committed, every
// outcome told as what it is, and the bucket kept up to date without anybody
// waiting for it.
//
// # States of a node
//
//	             raft elects it
//	follower ────────────────────▶ standby ─────────▶ active
//	   ▲                             │  ▲  document     │  │
//	   │ raft deposes it             │  │  won by CAS   │  │ document lost
//	   ├─────────────────────────────┘  │               │  ▼
//	   │                                └───────────── fenced
//	   └────────────────────────────────────────────────┘
//
// A reign (reign.go) is one time as raft's leader: Barrier, win the document,
// register as broker through the log, and from then on answer writes. It owns
// every goroutine that only a leader needs: the proposer, the flusher, the
// ticker that lets idle time pass.
//
// # Two clusters
//
// A cluster whose document was taken over by another one, and that adopts the document when the
// other is gone, carries over what it had acknowledged and the document does not have
// (carry.go). The document says where the history of each cluster ends in it (handovers in its header), so that
// no job runs again that the other cluster has finished and forgotten. What cannot be
// carried over is kept under conflicts/ before the state is replaced.
//
// A standby announces itself in the bucket. A leader that knows of one, and cannot renew its
// heartbeat for the broker timeout, acknowledges only heartbeats (standby.go).
//
// # Write path
//
//	Propose ─▶ group commit ─▶ one raft entry ─▶ quorum ─▶ machine ─▶ answer
//	                                                │
//	                                       flusher ─┴─▶ queue.json
//
// Nothing is answered before it is committed. Errors tell "not committed" from
// "perhaps committed" (ErrUnknown); the machine recognises repeated requests,
// so both may be retried.
//
// # Reads
//
// Only the active leader has proposed entries since its Barrier, and each was
// applied here before it was answered. So a read is linearizable once raft has
// confirmed the leadership after the read came in (Linearize), by answers to
// what was asked after it; readers that wait share one confirmation. Any node can answer a read that names the LSN
// it must see (WaitApplied).
//
// # Schedules
//
// The active leader reckons when schedules fire (package internal/crontab) and
// proposes it; the machine lets each time count once, whoever proposed it. Times
// that pass while nobody leads are made up for as the schedule says.
//
// # Waiting
//
// Who waits here is woken by the entry that it waits for: claims by jobs, as
// many as there are, readers of the end of a job by that end, readers of events
// by the next one. The newest events are kept on every node, under ids that all
// nodes share (History); a state that is restored from a snapshot has none, and
// says so.
//
// # Time
//
// Every node measures how far the wall clocks of the others are ahead of its own
// (clocks.go). A leader's clock (clock.go) starts where the machine's is, moves on by
// what has passed since, and is slewed towards the time that a majority of the clocks
// agree on; it steps only at a takeover, and only to such a time. An operator can have
// the time set back (setback.go).
//
// # State checks
//
// All nodes must have the same state. Every Config.StateCheck the leader puts a
// CheckState into the log; each node freezes its state there and computes the checksum
// in the background (statesum.go). The leader asks for the checksums (Identity) and puts
// that of a majority of the voters into the log (statecheck.go). A node with another one
// ends and marks its data directory; without a majority the leader only says so. A
// difference after a replay leaves no mark: another release may replay rightly. What a
// diverged node has left in the bucket is replaced: its snapshots are deleted, and the
// leader writes a new checkpoint.
//
// # Members
//
// A node joins if the leader's --peers, or its configuration, have its name, and takes
// the place of an older server of that name only if that one is gone (membership.go).
// When a member answered last, and how much of the log it has, the leader measures by
// its own requests (outbound.go).
//
// # Failure stance
//
// A node that cannot write its log, or meets an entry that it does not
// understand, reports on Fatal and its process must end: the others go on.
// Trouble with the bucket never stops the quorum. Trouble with the fence stops
// answering at once.
package cluster
