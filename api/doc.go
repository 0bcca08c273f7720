// Package api is the HTTP server of a node.
//
// # Problem
//
// A client may know any node, not necessarily the leader. Its answer may get lost, and the
// leader may change during a request. The client must get the answer of the active leader, or
// learn exactly what is known: that the write was not committed, or that it may have been.
//
// # The way of a request
//
//	            write, or read that needs the leader
//	request ──┬───────────────────────────────▶ this node leads? ── yes ─▶ handle
//	          │                                   │ no
//	          │                                   ├─ leader known ───────▶ forward
//	          │                                   └─ none, or forwarded ─▶ 503
//	          │ read with minLsn: wait until applied
//	          └───────────────────────────────────────────────────────────▶ handle
//	            read with consistency=local, status, health
//
// A request is forwarded at most once: the header Osqueue-Forwarded marks it. If the leader
// could not be reached, the problem has committed "no". If the connection broke after the
// request was sent, it has committed "unknown".
//
// A claim that waits sleeps in the backend and writes nothing until a job is available. It ends
// when the client disconnects and, at once, when the server stops.
//
// # Durability
//
// A write is answered when a majority of the nodes has it. A write that waits for the bucket
// (ack.go) then sleeps in the backend, like a claim that waits. The wait ends when the write is
// flushed, when the client disconnects, when the server stops or when the leader term ends. In
// each case the answer is a success, because the write is committed. A header says whether it
// was flushed.
//
// # Responsibilities
//
// The machine decides about jobs (fsm.Code), the node about commits (the errors of package
// cluster), and this package about requests: their size, their syntax, and the ranges of their
// fields. One table, in problem.go, turns all of these into answers. Every resource has one
// file with its routes and handlers. Package v1 defines the bodies. openapi.yaml describes the
// bodies and the routes, and every node serves it. The tests compare it with both, and compare
// every answer that they get with it.
//
// # Repeated requests
//
// Every write accepts an Idempotency-Key. It goes through Server.propose, which gives the
// mutation its name and a fingerprint of the request. The machine stores the answer, or as much
// of it as a handler needs to write the same bytes again. So a handler reads generated values
// (ids) from the Result, not from its proposal, and proposes one mutation per request. The
// tests send every write route twice, and fail for a new route that does not follow this rule.
//
// # Bytes
//
// Payloads and results are opaque: they are checked to be JSON, and stored and returned byte
// for byte. Encoders of JSON libraries would reformat them. So the answers that carry them are
// encoded by hand (encode.go), and tests compare these answers with the wire types.
//
// # Failure stance
//
// If a handler panics, its request gets an answer 500 and a line in the log; other requests are
// not affected. Internal errors are logged, and the caller does not see them. Every resource
// that a caller can make grow has a limit (Limits).
package api
