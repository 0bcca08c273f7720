// Package groupcommit turns many small calls that wait into few large commits.
//
// # Problem
//
// A raft entry, a PUT to a bucket and a round of VerifyLeader cost about the
// same for one mutation as for a thousand. Callers come one by one, and each
// needs its own answer. While a commit is in flight, a Batcher collects the items of
// new callers. It then commits them as one batch and returns to every caller its own
// result. The effect, a function of the configuration, performs the commit.
//
// # States of an item
//
//	          admitted            cut into a batch          answered
//	(new) ─────────────▶ buffered ────────────────▶ started ─────────▶ done
//	  │                     │                          │
//	  │ buffer full,        │ caller's context ended,  │ caller's context
//	  │ closed              │ closed                   │ ended
//	  ▼                     ▼                          ▼
//	ErrNotStarted        ErrNotStarted              ErrUnknown
//
// An item that finds the buffer empty and a slot free is started at once: no
// timer delays it to wait for more items. Batches form only because a
// commit is in flight, so an idle system has the latency of a bare commit and a busy one the throughput of large
// batches, without a setting to tune between them.
//
// # Order and pipelining
//
// A commit has two halves. Start puts a batch in its place in the order and
// must return soon; the wait that it returns brings the outcome. Starts happen
// one after the other, in the order in which the items were admitted; the
// waits of up to Config.MaxInFlight batches overlap. Urgent items (Config.Urgent)
// have an order and a buffer of their own, and go first in three of four batches. The few
// items of Config.First begin every batch, and no full buffer refuses them. This
// fits raft, whose Apply queues an entry in order and returns a future.
//
// Rejected: a single blocking Commit function, called by several goroutines.
// It is simpler to write, but two calls that run at once reach the log in an
// order that the scheduler picks, so pipelining would cost the order of the
// items. Also rejected: one goroutine that starts and others that wait. It
// keeps the order, but each batch would be handed over twice. Here every
// goroutine does all of a batch, and a token that goes round between them
// serialises the starts.
//
// # Bounds
//
// The batch is bounded in items and bytes, the buffer too. A full buffer
// refuses at once: queueing callers behind a commit that does not keep up
// would only turn overload into timeouts. There is one exception to each bound
// in bytes, so that no item can be impossible to commit: an item larger than a
// batch may be travels alone, and an item larger than the buffer is admitted
// when the buffer is empty.
//
// # Failure stance
//
// Every error of Do says which of three things is true. It matches
// ErrNotStarted: the effect never saw the item, try again. It matches
// ErrUnknown: the effect has the item, and its outcome did not become known. Otherwise
// it is the effect's own error, which every item of the batch gets; the effect defines
// its meaning. A Batcher never retries.
//
// A Batcher is safe for concurrent use. It owns MaxInFlight goroutines, which
// end with Close or Drain.
package groupcommit
