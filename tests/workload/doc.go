// Package workload is clients that go on through faults, and note everything that
// they are told in a history.
//
// # Who there is
//
// Producers enqueue jobs of several types and priorities; some are delayed, some wait
// after failed attempts, some must be in the bucket before they are acknowledged.
// Consumers claim and mostly complete; now and then they send a heartbeat, fail,
// release, come with a report after their lease is over, or fall silent for ever and
// go on under another name. Cancellers take jobs back. Readers ask the leader for jobs,
// and any node for what is at least as new as an answer that somebody has got.
//
// Each client has connections of its own and knows the nodes in another order.
//
// # Operations
//
// One call is one operation, however often the client repeats it, under one
// idempotency key, by which it is found in the nodes' logs. Answers that no correct
// client can be given (a bad request, a key used twice) end up in Err.
//
// # Failure stance
//
// No fault ends the load: a call that fails is noted with its outcome, and the client
// goes on. Every call is bounded, and Close ends all of them.
package workload
