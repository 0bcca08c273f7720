// Package attack replays attacks on real nodes.
//
// Each attack is one row of a table: what a stranger who can reach a port sends, and how the
// node must answer. While an attack runs, a bystander uses the cluster. An attack has failed
// if the node answers as expected, every process is alive, the bystander is served, no
// election took place, and the memory of the node stays within a bound.
//
//	raft_test.go      the raft port: forged requests, floods of bytes, slow requests
//	join_test.go      forged requests to join the cluster
//	browser_test.go   web pages: foreign origins, DNS rebinding
//	http_test.go      malformed requests: every route of openapi.yaml in every class
//	flood_test.go     floods of connections, frames, bytes and answers that are not read
//	legacy_test.go    the listener for legacy clients
//	token_test.go     forged, expired and revoked tokens, scopes, stolen claims
//	stream_test.go    scopes, stolen claims and expired tokens over the stream protocol
//	followerstream_test.go  forged frames and floods over a stream at a follower
//	livelog_test.go   forged live logs, floods of followers, escape sequences in the terminal
//	hooks_test.go     webhooks that point inside, and receivers that do harm
//	sandbox_test.go   jobs that try to leave their sandbox, or to harm the machine, at both levels
//
// docs/security.md says which finding each test belongs to.
package attack
