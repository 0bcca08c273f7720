// Package client is the Go client of osqueue: it enqueues, claims, reports and
// reads jobs of one cluster, whichever node leads.
//
// # Problem
//
// A leader can die during a request. The caller then has no answer, does not
// know whether the write took place, and must find the new leader. This package
// finds the leader, repeats a request for as long as that is safe, and states in
// the error whether the write took place if it has to stop.
//
// # Finding the leader
//
//	           a node reports that it leads
//	unknown ─────────────────────────────▶ known
//	   ▲                                     │
//	   └─────────────────────────────────────┘
//	      503, redirect, broken connection, attempt timed out
//
// While the leader is unknown, the client asks all nodes for /status at once,
// and sends the call to the nodes in turn, because followers forward. Concurrent
// callers share one round of requests. An answer with a lower term than a known
// one counts only if no better answer arrives. When a round finds a leader with a
// higher term, the client cancels calls that still wait for the old leader and
// repeats them at the new one, so that a frozen node does not hold a long poll.
//
// A client remembers the members that /status names, and asks the leader for them again every 30 s
// while calls are made. If none of its servers answers, it looks for the leader among these members.
//
// # Repetition
//
// Every write carries an id that makes its repetition safe: an enqueue has the
// ids of its jobs, which the client makes; a claim has a request id; a report has
// the token of its claim; all other writes have an idempotency key, from the
// client or from WithIdempotencyKey. The cluster recognises a repeated write and
// returns the first answer. Only a claim without the name of a worker has no such
// id; the client repeats it only if the first attempt certainly did nothing.
//
// The client repeats a call after a refused or broken connection, a timeout of
// the attempt, an unreadable answer, a redirect, 408, 425, 429, and a temporary
// 5xx. All other answers are final, also an exhausted quota: see IsOverQuota. The
// pauses grow from 50 ms to 1 s with jitter, and are at least as long as
// Retry-After says. A pause ends when another leader is found.
//
// # Ack levels
//
// A write succeeds when a majority of the nodes has it on disk. With AckObject,
// for one call (WithAck) or for all calls (Config.Ack), it also waits for the
// bucket, and then survives the loss of every node. If that wait takes too long,
// the write does not fail, because it is committed. Check Committed in the result
// or in a Receipt where the difference matters. A server may wait for the bucket
// by default; every request names the longest wait that the client accepts.
//
// # Streams
//
// Events reads from any node. When the connection breaks, the client asks the
// next node for the events after the last one. If events are missing, it yields an
// event of the kind v1.EventGap. WaitJob and Claim let the server wait; the client
// cancels and repeats their requests when another leader is found. A Watch waits
// for many jobs at once, with one stream of events and one read for each job.
//
// # Errors
//
// Every failed call returns an *Error. Its Committed is "no" if the write
// certainly did not take place, otherwise "unknown": one attempt with an unknown
// outcome makes the whole call unknown, unless a later attempt succeeds.
// Error.Tried has the last failure of each server.
//
// A Client is safe for concurrent use; share one. While no call is running it
// keeps idle connections and their goroutines, and nothing else.
package client
