// Package election decides who may write queue.json, and guards every write.
//
// # Problem
//
// The document in the bucket is shared: by the nodes of this cluster, by other
// clusters on the same bucket, by brokers of the older generation, by people
// with an editor. All that coordinates them is compare-and-swap on one
// object. A write must never go over something that its writer has not seen, a
// leader that was replaced must find out by the first write that it tries, and
// a write whose answer was lost must be neither reported as failed nor done
// twice.
//
// # The original's rule
//
// TryElect and CheckLeadership are the older brokers' election, on the raw
// text: whoever finds no broker, or a heartbeat older than the timeout, writes
// its own address by compare-and-swap. Everything else in the document is kept
// byte for byte.
//
// # The fence
//
// A raft leader goes further. It reads the document (Read), and Decide says
// what that means for this candidate:
//
//	        ┌────────── Wait, StepDown, Refuse: not now, not without a command
//	Read ──▶ Decide ─── Adopt: take the document's state over, then read again
//	  ▲      └───────── Create, TakeOver ──▶ Acquire ──▶ *Fence, active
//	  └───────────────────── ErrConflict ───────┘          │
//	  └──────────────────────────────── FencedError ───────┘
//
// Acquire writes the next epoch. From then on the Fence writes every version,
// each on the condition that the one before it, which is its own, still stands.
//
// What it writes is a Content (package queuefile): a state, or the archive in
// which it is. A candidate may write over a large document what is in it already,
// the archive, and catch up by the first write of its reign.
//
// # When a broker is dead
//
// A broker of another cluster, or a legacy one, is dead when the candidate has itself
// read the same version of the document for the whole broker timeout, by its own
// monotonic clock (Watch). A failed read, a failed write, or a pause of the candidate
// starts the count again. So neither a wall clock nor an outage of the bucket makes a
// living broker look dead, and a takeover comes one broker timeout after the
// candidate's first look at the earliest.
//
// A document of the candidate's own cluster is taken over at once if the log contains
// its history. If the document knows a term, an index or a registered epoch that the
// log does not know, the nodes have lost data, or a second cluster runs on a copy of
// their disks. The candidate waits until the document is silent, and adopts it then.
// StepDown asks the caller to check raft's leadership first: if it holds, no node of
// this cluster is in the later term.
//
// # The idle heartbeat
//
// A leader that knows of no standby may write its heartbeat rarely. Each such version of
// the document promises the next one: the header's next is the time until then. A broker
// that promised is dead one broker timeout after that (Silence.Promised, by the
// candidate's monotonic clock), and a promise counts for at most queuefile.NextMax.
//
//	       the last look found no standby
//	    ┌───────────────────────────────────┐
//	  fast                              idle, promises
//	    └───────────────────────────────────┘
//	a standby has announced itself, or the look failed: writes at once
//
// The pace follows from the last version that was written, not from the state: the pause
// after a version without a promise is short, also if the leader is idle by now. So no
// candidate waits less than the leader allows itself. The cases:
//
//   - A standby announces itself. The leader looks for one at least twice in a broker
//     timeout, writes without a promise, and stays fast while the standby is known. A
//     standby that knows no promises is noticed before its broker timeout is over.
//   - The announcement is lost, is removed, or cannot be written: the leader stays or
//     becomes idle, and the standby waits for each promise. It takes over later, not earlier.
//   - The leader cannot look: it writes at once, and stays fast.
//   - The leader dies while it is idle. The nodes of its cluster take over as ever, by raft.
//     Another cluster takes over after the rest of its own wait: the promise and the
//     broker timeout, from its first look. A leader that is stopped writes its last
//     version without a promise, unless it has lost the quorum before.
//   - The writes fail while a standby is known: the leader counts the promise of the last
//     version that it wrote before it refuses writes, if the standby says that it waits.
//   - Wall clocks do not matter: the promise is a duration.
//   - An earlier release of this program knows no promises. It refuses the document, as
//     a document can promise only above fsm.BaseLevel, at a feature level that it does not
//     know (cluster.promiseLevel).
//   - A legacy broker judges the heartbeat by its wall clock, cannot announce itself, and
//     would depose an idle leader. Therefore the idle heartbeat is off unless it is asked for.
//
// # Lost answers
//
// A write ends as Committed, Conflict or Unknown. Unless it is Committed, the
// fence reads the document: the same version still there means that nothing was
// applied yet, and the identical bytes are sent again under the same condition,
// of which at most one can win; our own bytes there mean that it had been applied;
// anything else is somebody's work. When the context ends before that is
// certain, the error says that the outcome is unknown, the fence remembers the
// write, and a later one recognises it should it still arrive. Every write
// carries a fresh id, so that no two versions are ever the same bytes, and the
// last 16 of them, so that a write is recognised even underneath a successor's.
//
// # Failure stance
//
// A document that cannot be read is an error and is never written over. A
// change of the document that is not ours is told apart: another
// broker or epoch means that we are fenced, for good; anything else under our
// epoch is somebody's edit, which the caller has to adopt before the fence
// writes again. The LSN of the document never goes back: an older state is
// refused.
package election
