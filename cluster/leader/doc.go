// Package leader acquires the document in the bucket while its node is raft's leader, and
// then answers writes for one leader term.
//
// # Problem
//
// Raft elects a leader of the nodes. That leader may answer writes only while it also owns
// the document: another cluster, or a legacy broker, may own it. From that moment the
// leader has duties of its own: it gives the queue its time, fires schedules, flushes the
// state, handles edits of the document, checks and collects the objects in the bucket,
// and compares the states of the nodes. All of them end when either ownership is lost.
//
// # Parts
//
//	Effects    what a leader needs of its node, as functions (effects.go)
//	gate       whether writes are refused (gate.go)
//	proposal   a list of mutations for one entry (propose.go)
//	Term       one time as active leader: its parts, and how it proposes (term.go)
//	Leader     lives as long as the node (leader.go)
//
// # Reading order
//
//	effects.go, gate.go                        types that the rest uses
//	term.go                                    the state of a term; what others see of it; proposals
//	propose.go                                 group commit, and claims that wait
//	standby.go, edit.go                        the document: rivals, edits
//	clock.go, level.go                         time, feature level
//	audit.go, statecheck.go                    checks and removals, in the background
//	carry.go                                   jobs of an adopted document
//	run.go                                     a term from its begin to its end; schedules
//	leader.go, candidate.go                    the leader, and its loop
//	campaign.go                                one attempt to acquire the document
//	handover.go                                raft's leadership moves to a node that can use the bucket
//
// # States
//
//	          raft elects               document acquired, broker registered
//	follower ─────────────▶ candidate ─────────────────────────────────────▶ active
//	   ▲                      │  ▲                                             │
//	   └──(raft deposes)──────┘  └───────────────(document lost)───────────────┤
//	   └──(raft deposes)───────────────────────────────────────────────────────┘
//
// At most one campaign or term runs at a time, in one goroutine. Term.run starts the other
// goroutines of a term and waits for them. When raft deposes the leader, the term stops
// answering before anything is waited for, because a hung bucket may delay the end of its
// goroutines.
//
// # Locks
//
// A leader calls its effects without a lock of its own, so an effect may take the
// replica's lock. In the other direction the node calls Leader.Applied under the replica's
// lock; it only signals goroutines and calls no effect.
//
// # Failure stance
//
// A failing bucket does not end a term: the flusher keeps trying, and the gate refuses
// writes when the bucket is too far behind or a standby may have taken over. A lost
// document ends the term at once, and the leader campaigns again. Every error of a write
// says whether the write may have been committed (ErrUnknown).
package leader
