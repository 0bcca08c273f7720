// Package flush brings what the machine has applied to the bucket for as long as
// its node is the active leader.
//
// # Problem
//
// Every mutation should reach queue.json soon, but a PUT costs the same for
// one as for a thousand, the heartbeat in the document must be renewed even
// when nothing happens, and no flush may cost more because the queue is deep. And
// the bucket may be away for minutes, while the quorum goes on.
//
// # Parts
//
//	Journal   every node: the entries that the bucket does not have, in memory
//	Drafter   leader: makes the next content of the document out of journal and
//	          state; writes segments, chapters and bases ahead of it
//	Flusher   leader: the loop; when to write, and what to do when it fails
//
// # When
//
//	idle ──(a mutation)──▶ write at once ──▶ wait out the interval ──▶ idle
//	  └────(heartbeat due)────▲                     │ more mutations
//	                          └─────────────────────┘
//
// A change that finds the flusher idle is written without delay; further ones
// wait for the interval since the last start, which a budget may stretch.
//
// # What
//
// A state that fits is written inline, and the archive with it, so that the past
// is kept. Larger ones are only in the archive. Its log grows by the tail, in the
// document itself. The tail is cut into a segment when it is full, or when
// the document has been written with it so often that a request of its own would
// have cost less (rent or buy): so the bytes written stay a small multiple of the
// bytes that are new. Many segments are folded into a chapter. When the log is
// larger than the base, a new base is written beside everything else, from a frozen
// state at which the log was cut; it replaces the base and the log before it.
//
// # Catching up
//
// After an outage the backlog goes out as segments, a few at a time and each of
// bounded size, and the document follows when they are all there; until then it
// is only renewed. A step that the bucket did not take in time is a shorter one the
// next time. If the journal could not hold the backlog, or a new leader's does not
// reach back to the document, a new base bridges the gap.
//
// # Failure stance
//
// The fence (package election) says how a write ended. Fenced: the loop ends
// with that error and the node steps down. Edited by hand: the edit is adopted
// first, then written over, a few times with growing pauses. Anything else is
// the bucket's trouble: the loop goes on trying, the quorum goes on working,
// and the lag shows in Status. A write whose outcome is not known is settled by
// the next one; nothing is reported as flushed before it is certain. An object
// whose fate is not known is garbage: the next attempt has another name.
package flush
