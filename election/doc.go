// Package election decides which broker may write queue.json, and guards every write.
//
// # Problem
//
// The document in the bucket is shared: by the nodes of this cluster, by other clusters on
// the same bucket, by legacy brokers, and by people with an editor. Their only coordination
// is compare-and-swap on one object. A write must never overwrite a change that its writer
// has not read. A replaced leader must find out at its first write. A write whose answer
// was lost must be neither reported as failed nor applied twice.
//
// # The rule of the legacy broker
//
// A legacy broker that finds no broker, or a heartbeat older than the timeout by its wall
// clock, writes its own address and heartbeat by compare-and-swap, and keeps everything
// else in the document.
//
// # The fence
//
// A raft leader needs more. It reads the document (Read), and Decide returns the next step
// of this candidate:
//
//	        ┌────────── Wait, StepDown, Refuse: not now, or not without a command
//	Read ──▶ Decide ─── Adopt: take the document's state over, then read again
//	  ▲      └───────── Create, TakeOver ──▶ Acquire ──▶ *Fence, active
//	  └───────────────────── ErrConflict ───────┘          │
//	  └──────────────────────────────── FencedError ───────┘
//
// Acquire writes the next epoch. From then on the Fence writes every version, each on the
// condition that its previous version is still in the bucket.
//
// A write has a Content (package document): the archive that leads to the state. A candidate may
// overwrite the document with the archive that it has already, and bring the state up to date with
// the first write of its leader term.
//
// # When a broker is dead
//
// A broker of another cluster, or a legacy one, is dead when the candidate itself has read
// the same version of the document for the whole wait (see below), by its own monotonic clock
// (Watch). A failed read, a failed write, or a pause of the candidate restarts the
// measurement. So neither a wall clock nor an outage of the bucket makes a living broker
// look dead, and a takeover comes one broker timeout after the candidate's first read at
// the earliest.
//
// The candidate takes over a document of its own cluster at once if its log has the
// document's history. If the document has a term, an index or a registered epoch that the
// log does not have, the nodes have lost data, or a second cluster runs on a copy of their
// disks. Then the candidate waits until the document is silent, and adopts it. StepDown
// asks the caller to check raft's leadership first: if this node is still leader, no node
// of this cluster is in the later term.
//
// # Both sides count with the same numbers
//
// A leader that is cut off from the bucket must stop answering before another cluster takes the
// document over. So the document says when that may be (document.Fence): the leader's broker
// timeout, its outage limit, its members, and the clusters that stand by, as far as it knows them.
//
//	the candidate                                   waits for    the leader stops answering after
//	is named in the document as a standby           timeout      timeout
//	has a majority of the members: they are gone    timeout      it is gone
//	is not known to the leader                      outage       outage; timeout if it named another one
//
// The leader counts from the start of its last write that certainly succeeded, and the candidate
// from the end of its first read of that version, which is later. A write whose outcome is unknown
// counts as the document if it names a standby. Announcements may be lost or late, and the clusters
// may be configured differently: only what the document says counts. Both sides use monotonic
// clocks, which stand still while a machine is suspended: a suspended leader answers nothing, but
// may answer for a moment when it wakes, until its next write of the document fails.
//
// The document is given up only by command (document.Release). A legacy broker judges the heartbeat
// by its wall clock.
//
// # Lost answers
//
// A write ends as Committed, Conflict or Unknown. Unless it is Committed, the fence reads
// the document. If the version is unchanged, nothing was applied yet, and the fence sends
// the identical bytes again under the same condition; at most one of these requests can
// win. If the document has the fence's own bytes, the write was applied. Any other content
// was written by another program. If the context ends before the outcome is certain, the
// error is ErrUnknown, the fence remembers the write, and a later write recognises it if it
// was applied after all. Every write has a new id, so that no two versions have the same
// bytes, and the last 16 ids, so that a write is recognised even in the history of a
// successor's document.
//
// # Failure stance
//
// A document that cannot be read is an error and is never overwritten. The fence
// distinguishes two changes by other programs: another broker or epoch means that this
// broker is fenced, permanently; any other change under the present epoch is an external
// edit, which the caller must handle before the fence writes again. The LSN of the document
// never decreases: an older state is refused.
package election
