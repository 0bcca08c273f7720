// Package membership forms a cluster, and adds and removes its nodes.
//
// # Problem
//
// A node must never vote twice: not after it lost its disk, and not next to a second node
// of its name. No node may start a new cluster while an old one still runs. A node that was
// removed must notice it, although raft does not send it the removal.
//
// # Parts
//
//	serverid.go  the server id name~instance, which belongs to the data directory
//	Peers        the requests to other nodes; needs no raft
//	Seed         a new node reads the state in the bucket before raft starts
//	Members      the node's own membership, and what the leader does for others
//	senders.go   whose raft requests the node takes
//
// # States of a node
//
//	           all nodes of --peers are empty
//	empty ───────────(bootstrap)───────────────▶ voter ──(removed)──▶ ends
//	  └──(the others have a cluster)──▶ joining ───▲
//
// A joining node asks the leader. The leader checks that the operator has named the node,
// that it answers at its address in --peers with the identity of the request, and that the
// server it replaces is gone. It sends nothing to addresses of the request. Then it adds the
// node without a vote, waits until the node has the log, and gives it a vote. Each step may
// be repeated.
//
// # Failure stance
//
// Members refuses when it cannot know: it removes no server that may still run, and
// bootstraps only when every node of --peers has answered that it is empty. A refusal says
// what to do, and the joining node asks again. Seed is an optimization: if it fails, the
// leader sends the whole state.
package membership
