// Package transport carries raft's requests between nodes, and checks those that raft
// itself would handle wrongly.
//
// # Problem
//
// The raft library trusts its network. A heartbeat of a successor reaches it in the middle
// of leading, a vote counts for whichever server has an address, an old answer confirms a
// leadership, a large request times out on a slow link while it makes progress, and a
// future is never answered after the shutdown. Each of these loses committed entries,
// serves old reads, or blocks a goroutine.
//
// # Parts
//
//	Listen    the TCP transport: bounded connections and requests, deadlines that follow
//	          the progress
//	Inbound   between the transport and raft: heartbeats and votes of other nodes, and
//	          the check of every request (check.go)
//	Outbound  between raft and the transport: bounded requests, who has answered, and when
//	Await     waits for a future of raft, also when raft ends
//	NewLogger raft's log without repetitions
//
// # States
//
// Outbound sends until cut is closed, and nothing after that: a node whose disk hangs must
// not continue to send heartbeats as leader. Inbound passes requests on while Relay runs.
//
// # Failure stance
//
// A request that cannot be delivered fails, and raft sends it again. A request that this
// node must not answer, such as a vote without membership, fails with an error that says
// why. Nothing here ends the node.
//
// The port is open to everybody who can reach it. A request that no correct node sends is
// refused before raft sees it, and a request that is too large before it is decoded
// (message.go). A stranger who knows the ids of the nodes can still send correct requests
// in the name of a node: docs/security.md says what that means.
package transport
