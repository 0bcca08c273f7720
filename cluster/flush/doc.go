// Package flush writes the machine's state to the bucket for as long as its
// node is the active leader.
//
// # Problem
//
// Every mutation should reach queue.json soon, but a PUT costs the same for
// one as for a thousand, and the heartbeat in the document must be renewed even
// when nothing happens. So one loop decides when to write, and each write
// carries everything applied so far.
//
//	idle ──(a mutation)──▶ write at once ──▶ wait out the interval ──▶ idle
//	  └────(heartbeat due)────▲                     │ more mutations
//	                          └─────────────────────┘
//
// # When
//
// A change that finds the flusher idle is written without delay; further ones
// wait for Interval since the last start. Documents are written whole, so a
// large one is also held back by Bandwidth, but never so long that the
// heartbeat would be late.
//
// # Failure stance
//
// The fence (package election) says how a write ended. Fenced: the loop ends
// with that error and the node steps down. Edited by hand: the edit is adopted
// first, then written over, a few times with growing pauses. Anything else is
// the bucket's trouble: the loop goes on trying, the quorum goes on working,
// and the lag shows in Status. A write whose outcome is not known is settled by
// the next one; nothing is reported as flushed before it is certain.
package flush
