// Package workload runs clients that continue through faults, and records every answer that
// they get in a history.
//
// # Clients
//
// Producers enqueue jobs of several types and priorities. Some jobs are delayed, some wait
// after failed attempts, some are in a sequence or have limits by key, some expire, and some must be
// in the bucket before they are acknowledged. Consumers claim jobs and complete most of them. Now and
// then they send a heartbeat, hold a key of the job, fail, release at once or for a time, report
// after their lease has expired, or stop permanently and continue under another name. Cancellers
// cancel jobs, editors change them, with the revision or without, and limiters set the rules of
// keys, hold keys, put schedules and change the ageing of types. Readers ask the leader for jobs, and
// any node for a state that is at least as new as an answer that a client has got.
//
// Each client has connections of its own, and its own order of the nodes. Two of three clients
// write over streams, as the Go SDK does, and use HTTP while no node opens one; the others use
// HTTP only.
//
// # Operations
//
// One call is one operation, however often the client repeats it, under one idempotency key.
// The key identifies the operation in the nodes' logs. Answers that a correct client cannot get
// (a bad request, a key used twice) are recorded in Err.
//
// # Failure stance
//
// No fault ends the load: a call that fails is recorded with its outcome, and the client
// continues. Every call is bounded, and Close ends all of them.
package workload
