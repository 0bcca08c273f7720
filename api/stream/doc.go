// Package stream serves the stream protocol of docs/stream.md: many requests at the same time
// on one connection.
//
// # Problem
//
// A write over HTTP costs two system calls and a parse of headers on each side, more
// than the commit of one job among many. Callers that share a connection save both: the
// answers of one committed entry leave with one write. The semantics must not change. So this
// package moves frames and bounds what a connection can use, and a Handler, which the
// HTTP API implements, answers every request.
//
// # States of a connection
//
//	upgrade ── Hello of the server ──▶ open ── Drain ──▶ draining ── last answer sent ──▶ closed
//	                                    │                   │
//	                                    └─── broken, silent, or slow reader ───▶ closed
//
// A draining connection still answers its requests, and new ones too: the Moved frame is advice,
// which may cross with requests. The Handler refuses them if it must.
//
// A node that does not lead forwards each request to the leader, as it does over HTTP, and tells the
// client in a Moved frame where the leader is.
//
// # Goroutines
//
// Conn.Serve reads frames in the goroutine of its caller. It starts one goroutine that writes,
// and one for each request in progress; up to idleMax of these wait for the next request. All of them
// have ended when Serve returns.
//
// A handler appends its answer to the output buffer of its connection. The writer takes
// the whole buffer at once. Before that it yields, so that the other handlers that the same
// committed entry has woken append their answers to the same buffer.
//
// # Bodies
//
// This package does not read the bodies of requests. Those of the busy calls are protobuf messages of package v1, those of all others
// are the JSON of the HTTP API; a flag in the frame says which. The core of calls decodes both into the same structs, with
// the same checks, and makes the fingerprint of an idempotency key from the struct: a client may repeat a call in the other
// encoding.
//
// # Limits
//
//   - Limits.InFlight requests per connection. The client knows the number from the Hello;
//     a request beyond it is refused with ErrInFlight. Reading continues, because
//     a cancellation may follow.
//   - Limits.BodyBytes per request body. A longer one is discarded and refused with ErrTooLarge. A frame that is
//     longer than discardMax ends the connection.
//   - The budget for all bodies and answers of the process (internal/limit). A request takes bytes of
//     it as its body arrives, and is refused with the error of the budget if it does not fit.
//   - Limits.QueuedBytes of bodies that are in progress, and as many of answers that the client has not
//     read. Beyond this the server reads no further frame from this connection until the number
//     has fallen. Other connections are not affected.
//
// # Failure stance
//
// If the connection breaks, the contexts of its requests end, as they do for HTTP. A write that
// is committed stays committed; its client does not know, and repeats it with the same id or idempotency
// key. A client that reads nothing for Limits.WriteTimeout, or sends nothing for three
// ping intervals, is disconnected. A handler that panics costs its request only. A malformed frame
// ends the connection, because the position of the next frame is not certain.
package stream
