// Package client talks to an osqueue cluster: it enqueues, claims, reports and
// reads, over whichever node leads at the moment.
//
// # Problem
//
// Leaders die in the middle of a request. The caller then holds neither an
// answer nor the knowledge whether the write took place, and has to find the
// new leader first. This package does both: it finds the leader, repeats what
// is safe to repeat until it has an answer, and says exactly what is known
// when it has to give up.
//
// # Finding the leader
//
//	           a node says "leader"
//	unknown ─────────────────────────▶ known
//	   ▲                                 │
//	   └─────────────────────────────────┘
//	     503, redirect, broken connection, attempt timed out
//
// While unknown, all nodes are asked for /status at once, and the call goes to
// any node meanwhile, in turns: followers forward. Concurrent callers share
// one round of questions. An answer that names a lower term than one already
// seen is believed only if no better one comes. When a round finds another
// leader of a higher term, calls that still wait for the old one are cut and
// repeated there, so that a frozen node does not hold a long poll.
//
// # Repeating
//
// Every write carries what makes its repetition harmless: an enqueue the ids
// of its jobs, made here; a claim a request id; a report the token of its
// claim; everything else an idempotency key, made here or given with
// WithIdempotencyKey. The cluster recognises what it has done already and gives
// the first answer again. Only a claim without a worker's name has no such
// mark, and is repeated only if the first try certainly did nothing.
//
// Repeated are: connections refused or cut, attempts that time out, answers
// that cannot be read, redirects, 408, 425, 429, and 5xx that are temporary.
// All other answers are final, also that a quota is used up: when there is room
// again nobody knows, and IsOverQuota tells the caller. The pauses grow from 50 ms to 1 s with jitter,
// and are not shorter than Retry-After asks; but as soon as another leader
// shows up the pause ends.
//
// # How safe
//
// A write succeeds when a majority of the nodes has it on disk. With AckObject,
// for one call or for all of a client, it also waits for the bucket, and then
// survives the loss of every node; but it does not fail when that takes too long,
// because it is done. So look at Committed, in results or in a Receipt, where it
// matters. A server may wait for the bucket by default: then each request tells
// it how patient this client is.
//
// # Streams
//
// Events comes from any node and outlives it: what follows the last event seen
// is asked of the next one. Where events are missing in between it says so with
// an event of the kind v1.EventGap. WaitJob and Claim let the server wait; their
// requests are cut, and made again, when another leader shows up. A Watch waits
// for many jobs at once, over one such stream and with one read for each end.
//
// # Failure stance
//
// Every failed call returns an *Error. Its Committed says "no" if the write
// certainly did not take place, else "unknown": one attempt with an unknown
// outcome makes the whole call unknown, whatever later attempts say, unless
// one succeeds. Error.Tried has the last failure of each server.
//
// A Client is safe for concurrent use and meant to be shared. While no call is
// running it keeps idle connections, and no other goroutines than theirs.
package client
