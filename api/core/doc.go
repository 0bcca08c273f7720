// Package core answers calls, whatever front end they came through.
//
// # Problem
//
// The same call may come over HTTP, in a frame of a stream, or from a client of an older system, and must mean the
// same: the same checks, limits, errors, and the same answer when it is repeated.
//
// A Call is an operation (Route), its object, parameters and body, and its caller, idempotency key and ack level; and
// its answer. It knows no request of HTTP. A front end fills it, gives it to Core.Do, and encodes the answer. The Route
// says where it can be handled: at the leader, at any node, or at a node that has applied enough.
//
//	front end ──▶ Do ──▶ Route.Handle (jobs, work, queues, admin, node) ──▶ gate ──▶ log
//	               │                                                  └──▶ view of the state
//	               └─ another node leads ──▶ forwarding
//
// # The gate
//
// Only the gate (gate.go) can write: the rest has the node without the methods that
// do. What passes it is within the scope of its caller, belongs to the caller's tenant, has the
// caller as its owner, and counts in the caller's quota. A caller without identity owns nothing. Kinds of
// mutations that no call may propose do not pass. The tests take every kind that the machine knows through the gate.
//
// # Waits
//
// A claim that waits sleeps in the backend and writes nothing until a job is available. It ends
// when the client disconnects and, at once, when the server stops. A write is answered when a majority of
// the nodes has it. One that waits for the bucket (ack.go) then sleeps in the backend, too, until it is flushed, its
// time is over, or the leader's term ends. In each case the answer is a success, because the write
// is committed; it says whether the write was flushed.
//
// # Responsibilities
//
// The machine decides about jobs (fsm.Code), the node about commits (the errors of package
// cluster), and this package about calls: their size, their syntax, and the ranges of their
// fields. One table, in problem.go, turns all of these into answers. Package v1 defines the bodies.
//
// # Repeated calls
//
// Every write accepts an idempotency key. Propose gives the mutation this name and a fingerprint of the
// call. The machine stores the answer, or as much of it as a handler needs to write the same bytes again. So a
// handler reads generated values (ids) from the Result, not from its proposal, and proposes one
// mutation per call. The tests send every write twice, and fail for a new one that does not follow this rule.
//
// # Bytes
//
// Payloads and results are opaque: they are checked to be JSON, and stored and returned byte
// for byte. Encoders of JSON libraries would reformat them. So the answers that carry them are
// encoded by hand (encode.go), and tests compare these answers with the wire types.
//
// # Failure stance
//
// If a handler panics, its call gets an answer 500 and a line in the log; others are not
// affected. Internal errors are logged, and the caller does not see them. Every resource
// that a caller can make grow has a limit (Limits).
package core
