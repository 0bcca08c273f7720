// Package history records one run of a cluster under faults: the requests and answers of the
// clients, the faults, the contents of the nodes' logs, and the documents that the bucket
// accepted.
//
// # Form
//
// Each line is a JSON object with one field that states its kind; the first line is the run.
// Lines are in the order in which the events were recorded, which is the order of their ends:
// sort by time if needed. Times are nanoseconds since the start of the run by one monotonic
// clock, so a record comes from one process.
//
// # Outcomes
//
// An operation is one call of a client with all its repetitions, which have the same
// idempotency key. Ok is an answer. Refused means that the operation certainly had no effect.
// All other operations are Unknown: a checker must accept both that the operation took effect,
// at any time after its call, and that it did not.
//
// # Failure stance
//
// A line that is not understood completely is an error that names the line: a checker that
// skips unknown data could accept a wrong run. If a record cannot be written, the run ends with
// an error.
package history
