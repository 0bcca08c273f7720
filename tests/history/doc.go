// Package history is the record of one run of a faulted cluster: what clients
// asked and were told, which faults hit, what the nodes' logs hold, and which
// documents the bucket accepted.
//
// # Form
//
// One JSON object a line, with one member that says what it is; the first one is
// the run. Lines are in the order in which things were noted, which is that of
// their ends: sort by time where it matters. Times are nanoseconds since the run's
// start by one monotonic clock, so the record is of one process.
//
// # Outcomes
//
// An operation is one call of a client with all its repetitions: they carry one
// idempotency key. Ok is an answer. Refused says for certain that nothing
// happened. Unknown is everything else: a checker must accept both that it
// happened, at any time from its call on, and that it did not.
//
// # Failure stance
//
// A record that is not understood in full is an error that names its line: a
// checker that skips what it does not know would call a lie the truth. A record
// that could not be written is an error at the end of the run.
package history
