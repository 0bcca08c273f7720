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
//	          the check of every request (check.go), also against this node's log (install.go)
//	Outbound  between raft and the transport: bounded requests, who has answered, and when
//	Await     waits for a future of raft, also when raft ends
//	NewLogger raft's log without repetitions
//
// # Order of requests
//
// A request may arrive late: after its sender gave up and repeated it, after other requests, or
// after a change of leader. Three goroutines take part.
//
//	connection   reads a request, and waits for its answer. It answers a heartbeat that
//	             changes nothing by itself (Inbound.heartbeat).
//	Relay        takes the requests of all connections, one at a time. It checks a request,
//	             hands it to raft, and waits for raft's answer. Until then it takes no other
//	             request, so no append passes a snapshot, and no lock is needed.
//	raft         handles the request in its main goroutine
//
// Relay compares with the log of this node only what raft would handle wrongly: a snapshot, and
// entries at or below the commit index. Before it looks at a snapshot it gives raft a heartbeat
// of the sender, so raft is in the sender's term, and follows it. Then:
//
//	the log or its base has the snapshot's entry           success; raft does not see it
//	the snapshot ends below the oldest entry of the log    success, unless its term is later
//	this node has committed another entry there            an error that says what to do
//	otherwise, the snapshot is ahead                       raft installs it
//
// After a success the leader sends what follows the snapshot. Relay removes the entries that
// are committed here from that request, because the log may begin behind them. So the leader
// reaches the end of the log and does not send the snapshot again.
//
// The body of a snapshot that raft does not see is read by a goroutine of its own.
//
// Below raft, the log keeps committed entries that no snapshot on the disk contains (package
// raftlog): the node ends if raft removes them.
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
