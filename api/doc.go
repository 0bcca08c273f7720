// Package api is the HTTP server of a node.
//
// # Problem
//
// A client knows some node, not the leader; its answer may get lost on the
// way; the leader may change in the middle of a request. Whoever asks must get
// the answer of the active leader, or be told exactly what is known: that the
// write did not take place, or that it may have.
//
// # The way of a request
//
//	            write, or read of what the leader has
//	request ──┬───────────────────────────────▶ this node leads? ── yes ─▶ handle
//	          │                                   │ no
//	          │                                   ├─ leader known ───────▶ pass on
//	          │                                   └─ none, or passed on ─▶ 503
//	          │ read with minLsn: wait until applied
//	          └───────────────────────────────────────────────────────────▶ handle
//	            read with consistency=local, status, health
//
// A request is passed on at most once: the header Osqueue-Forwarded marks it.
// If the leader could not be reached the problem says committed "no", if the
// connection broke after the request was sent, "unknown".
//
// A claim that waits sleeps in the backend and writes nothing until there is a
// job. It ends with the client's connection and, at once, with the server.
//
// # How safe
//
// When a write is answered a majority has it. One that is to be in the bucket,
// too, sleeps after that in the backend (ack.go), like a claim that waits: it
// ends with the client, with the server and with the reign, and whatever ends it,
// the answer is a success, because the write is done. Only a header tells.
//
// # Who decides what
//
// The machine decides about jobs (fsm.Code), the node about commits (the
// errors of package cluster), this package about requests: their size, their
// syntax, the ranges of their members. One table, in problem.go, turns all of
// these into answers. Every resource has one file with its routes and
// handlers. The shapes of bodies are those of package v1; openapi.yaml
// describes them and the routes, and every node hands it out. The tests hold it
// against both, and every answer that they get against it.
//
// # Sending again
//
// Every write takes an Idempotency-Key. It goes through Server.propose, which
// gives the mutation its name and a fingerprint of the request; the machine
// remembers the answer, or as much of it as handlers need to write the same
// bytes again. So a handler takes from the Result, and not from what it
// proposed, whatever it made up itself (ids), and makes the mutation of one
// request one mutation. A new route that forgets this fails the tests, which
// send all routes that write twice.
//
// # Bytes
//
// Payloads and results are opaque: they are checked to be JSON, and stored and
// given back byte for byte. Encoders of JSON libraries would reformat them, so
// the answers that carry them are written by hand (encode.go), and tests hold
// these against the wire types.
//
// # Failure stance
//
// A handler that panics costs its request an answer 500, and a line in the
// log, and nothing else. Errors of the inside are logged and not told to the
// caller. Everything that a caller can make grow has a limit (Limits).
package api
