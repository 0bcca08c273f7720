// Package cluster runs one node of an osqueue cluster. It connects raft, the state machine
// (package fsm), the fence on the document (package election) and the flusher (package
// cluster/flush).
//
// # Problem
//
// Raft elects a leader and replicates the log. That leader must not answer writes at once:
// another cluster, or a legacy broker, may own the document in the bucket. When it does
// answer, each write must be committed, each error must say whether the write may have been
// committed, and the flusher must keep the bucket up to date without delaying any write.
//
// # Parts
//
// The node has the configuration, raft, and a thin adapter from raft to the machine
// (replica.go). It answers proposals, reads and Status, and gives its parts what they need
// as functions; no part holds the node.
//
//	cluster/leader      one term as active leader, and the campaign for the document
//	cluster/membership  forming the cluster, identities, joins and removals
//	cluster/notify      events, waits and wake-ups
//	cluster/transport   raft's connections, and checks of its requests
//	cluster/flush       the flusher and the document builder
//	cluster/raftlog     raft's log, votes and witness
//	cluster/snapshot    raft's snapshots, and the first one of a new node
//	cluster/plane       the port for the other nodes
//	cluster/past        earlier states, rebuilt from the bucket
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
// A leader term (leader.Term) is a node's time as active leader. The node waits until it
// has applied the log (raft's Barrier), acquires the document, registers as broker through
// the log, and answers writes from then on. The leader term owns every goroutine that only
// a leader needs: the proposer, the flusher, and the timer that lets time pass on an idle
// cluster.
//
// # Two clusters
//
// Another cluster may take the document over, and this cluster may adopt the document
// later, when the other cluster is gone. It then carries over the jobs that it had
// acknowledged and that the document lacks (leader/carry.go). The handovers in the
// document's header say at which point of each cluster's history the document left it, so
// that a job that the other cluster has finished and forgotten does not run again. Jobs
// that cannot be carried over are stored under conflicts/ before the state is replaced.
//
// A standby announces itself in the bucket, and the leader names it in the document. A leader
// that cannot renew its heartbeat stops answering before another cluster takes over
// (leader/standby.go).
//
// # Write path
//
//	Propose ─▶ group commit ─▶ one raft entry ─▶ quorum ─▶ machine ─▶ answer
//	                                                │
//	                                       flusher ─┴─▶ queue.json
//
// A write is answered only after it is committed. Errors distinguish "not committed" from
// "perhaps committed" (ErrUnknown). The machine recognises repeated requests, so the client
// may retry both.
//
// # Reads
//
// Only the active leader has proposed entries since its Barrier, and it applied each of
// them before it answered. So a read is linearizable if raft confirms the leadership after
// the read came in (Linearize). Only answers to requests that were sent after that point
// count (transport.Outbound). Readers that wait share one confirmation. Any node can answer
// a read that names the LSN that it must see (WaitApplied).
//
// # Schedules
//
// The active leader computes when schedules fire (package internal/crontab) and proposes
// the fires. The machine lets each scheduled time count once, even if two leaders propose
// it. A schedule's policy says what happens to times that pass while no leader is active.
//
// # Waiting
//
// The entry that a caller waits for wakes the caller. A claim that waits for a job is
// committed in the same entry, right behind the mutation that makes the job available
// (leader/propose.go), or else woken when the entry is applied. The end of a job wakes the readers that wait for it, and an event wakes all event
// streams. Every node keeps the newest events in memory, under ids that are the same on all
// nodes (package cluster/notify). A node whose state comes from a snapshot has no earlier
// events, and reports that to readers that ask for them.
//
// # Time
//
// Every node measures how far the wall clocks of the others are ahead of its own
// (clocks.go). A leader's clock (leader/clock.go) starts at the machine's time, advances by
// the time that has passed since, and is slewed towards the time that a majority of the
// clocks agree on. It steps only at a takeover, and only to such a time.
//
// # State checks
//
// All nodes must have the same state. Every Config.StateCheck the leader puts a CheckState
// into the log. Each node freezes its state at that entry and computes the checksum in the
// background (statesum.go). The leader asks for the checksums (Identity) and puts the one
// of a majority of the voters into the log (leader/statecheck.go). A node with another
// checksum ends and marks its data directory. Without a majority the leader only logs the
// difference. A difference after a replay of the log leaves no mark: another release may
// replay the log correctly. The leader then writes a new checkpoint, because a diverged node
// may have written the one in the archive.
//
// # Members
//
// Raft's configuration is the list of members. Operators change it, and a node may join if an
// operator has admitted its name. It replaces an older server of that name only if that server is gone (package
// cluster/membership). The leader measures from its own requests when each member answered
// last and how much of the log it has (transport.Outbound).
//
// # Failure stance
//
// A node that cannot write its log, whose log does not answer, or that reads an entry that it does not
// understand, reports the error on Fatal, and its process must end; the other nodes continue. A failing
// bucket never stops the quorum. A lost fence stops the answers at once. A node does not start with a
// log that has less than its witness says (package raftlog): term and vote as they are, and the newest entry
// as it was at the end of the node, or up to a second before it was killed.
package cluster
