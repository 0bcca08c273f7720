// Package flush writes the applied state of the machine to the bucket while its node is the
// active leader.
//
// # Problem
//
// Every mutation should reach queue.json soon, but a PUT costs the same for one mutation as
// for a thousand. The heartbeat in the document must be renewed even when nothing happens,
// and the cost of a flush must not grow with the depth of the queue. The bucket may be
// unavailable for minutes while the quorum keeps working.
//
// # Parts
//
//	UnflushedLog     every node: the entries that are not flushed, in memory
//	DocumentBuilder  leader: builds the next content of the document from the log and the
//	                 state; writes segments, segment indexes and checkpoints before a
//	                 document names them
//	Flusher          leader: the loop; decides when to write, and handles failures
//
// # When
//
//	idle ──(a mutation)──▶ write at once ──▶ wait out the interval ──▶ idle
//	  └────(heartbeat due)────▲                     │ more mutations
//	                          └─────────────────────┘
//
// If the flusher is idle, it writes a change without delay. It writes further changes when
// the interval since the last start has passed. While a request waits for the bucket, the
// interval is shorter (Config.UrgentInterval). The budget limiter may stretch both.
//
// # What
//
// The state is in the archive, at every depth: a checkpoint, and the log after it. A young queue has
// only the log. The document also shows the available and running jobs while they fit. The log
// grows in the tail, which the document itself contains. The builder seals the tail as a segment when it is full, or
// when the bytes of the tail in all documents since the last seal exceed the cost of a
// separate request. The bytes written are thus a small multiple of the new bytes. The
// builder compacts many segments into a segment index. When the log is larger than the
// checkpoint, the builder seals the log and writes a new checkpoint of the frozen state at
// that point in the background. The new checkpoint replaces the old one and the log before
// it.
//
// # Catching up
//
// After an outage the builder writes the backlog as segments of bounded size, a few at a
// time, and the document follows when all of them are in the bucket; until then the flusher
// only renews it. If the bucket did not accept a step in time, the next step is shorter. If
// the unflushed log could not hold the backlog, or the unflushed log of a new leader does
// not reach back to the document, a new checkpoint bridges the gap.
//
// # Failure stance
//
// The fence (package election) reports how a write ended. If the node is fenced, the loop
// ends with that error and the node steps down. If a person edited the document, the node
// adopts the edit and the flusher then overwrites it, a few times with growing pauses. On
// any other error the bucket is at fault: the loop keeps trying, the quorum keeps working,
// and Status shows the lag. The next write settles a write with an unknown outcome; the
// flusher reports nothing as flushed before it is certain. An object with an unknown
// outcome is garbage: the next attempt uses another name.
package flush
