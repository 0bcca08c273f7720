// Package osqueue lets the clients of the legacy broker, written in TypeScript, work
// against a cluster without a change. It serves Connect RPC, WebSockets, the REST routes
// whose JSON differs from the HTTP API's, and CORS.
//
// # Problem
//
// Four transports carry the same six operations: submit, claim, heartbeat,
// complete, stats, list. They differ in the values that they coerce, in the fields that
// they leave out and in their errors. The rules of the queue must stand in one place
// nevertheless, and a legacy client must get the leader's answer from any node.
//
// # The path of a call
//
//	Connect, gRPC, gRPC-Web ──▶ connect.go ─┐
//	WebSocket ────────────────▶ socket.go ──┼─▶ calls of the API, in the process (package compat)
//	REST ─────────────────────▶ rest.go ────┘   └─ forwarded to the leader
//
// So each operation, each wait, each limit and the forwarding has one implementation, and a translation knows only the
// two shapes. Requests to other routes, requests that use the API's features and requests that another node forwards go
// to the API as they are.
//
// # Leniency by contract, safety by token
//
// Legacy clients send no fencing token. Without a token, a heartbeat or a completion by a
// worker that does not lease the job changes nothing and succeeds; their contract
// requires it. With a token the call is strict.
//
// # Errors
//
// On the legacy broker's routes, errors have its field _tag (BrokerProtocolError,
// StorageBackendError, CASConflictError). On all other routes they are the API's. A client error has the fitting 4xx status where the legacy broker
// answered 500 to everything; its client does not distinguish them. If no leader is
// known, or the node is overloaded, the status is 503 and legacy clients retry. A bucket
// that lags too far behind for writes is the legacy storage failure: 500 without effect;
// legacy clients retry it too. One table, in fault.go, serves all transports. Errors of
// features that the legacy broker does not have keep the API's words.
//
// # Failure stance
//
// A connection has no state worth keeping: a legacy client reconnects to any node. A
// WebSocket whose client does not read its answers in time is cut, and the answers of all that wait
// are bounded (Limits), so that the memory of a thousand such clients is bounded. Connections,
// messages, lists and calls in flight are bounded. A received call is executed even if
// its client has gone. This package stores no job and retries no write; its only timers
// are those of connections.
package osqueue
