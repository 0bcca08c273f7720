// Package osqueue lets the clients of the original osqueue, a broker written in
// TypeScript, work against a cluster of ours without a change: Connect RPC,
// WebSocket, what REST has in another shape, CORS, and names of the environment.
//
// # Problem
//
// Four transports carry the same six operations: submit, claim, heartbeat,
// complete, stats, list. Each has habits of its own (what is coerced, what is
// left out, what an error looks like), but what a job is and what becomes of it
// must be decided in one place, and an old client must find the leader's answer
// on whatever node it was pointed at.
//
// # The way of a call
//
//	Connect, gRPC, gRPC-Web ──▶ connect.go ─┐
//	WebSocket ────────────────▶ socket.go ──┼─▶ native.go ──▶ the node's HTTP API, in the process
//	REST ─────────────────────▶ rest.go ────┘                  └─ passes it on to the leader
//
// The operations are those of the HTTP API: native.go is a client of the handler
// that the node serves, without a socket between them. So there is one
// implementation of each operation, of waiting, of limits and of passing on, and
// a translation only knows the two shapes. Routes of REST that have the same
// shape in both are not translated at all, and neither is anything for those who
// ask for the API's own errors, or what another node passes on.
//
// # Leniency by contract, safety by token
//
// Old clients know no fencing token. Without one, a heartbeat or a completion of
// somebody who does not hold the job changes nothing, and is a success all the
// same; that is what their contract says. With one, the call is strict.
//
// # Errors
//
// Errors have the member _tag of the original (BrokerProtocolError,
// StorageBackendError, CASConflictError). Faults of the client are answered with
// the 4xx that fits, where the original answered 500 to everything; its own
// client does not tell them apart. What cannot be answered now (no leader, too
// much to do) is 503, and the old clients' loops try again. A bucket that is too far
// behind for writes is the original's storage failure, and told like it: 500, with
// nothing done; its clients try again all the same. One table, in fault.go, serves
// all transports; what can only come of things that the original does not have stays
// in the API's words.
//
// # Failure stance
//
// The state of a connection is worth nothing: an old client reconnects to
// any node and goes on. A WebSocket that does not read is cut when its queue of
// answers is full (Limits), so that a thousand of them cost a bounded amount of
// memory. Connections, messages, lists and the calls under way are bounded. What was
// received is carried out, whether its client is still there or not. Nothing here
// keeps jobs or repeats writes, and the only clocks are those of connections.
package osqueue
