package cluster

import (
	"errors"

	"github.com/hashicorp/raft"
)

// A candidate asks for votes by address, and raft's handler neither knows whom
// the candidate meant nor, while its own configuration is empty, whether it is
// a member at all. A node that lost its disk would so vote in the place of its
// predecessor, for a log without the entries that the predecessor had helped to
// commit. It may follow and store, but it votes only under a configuration with
// its own id, which the leader writes when it joins (membership.go).

var errNoVote = errors.New("this node has no vote: it is not in its own configuration; it lost its disk and has not rejoined, or was removed")

func asksForVote(rpc raft.RPC) bool {
	switch rpc.Command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		return true
	default:
		return false
	}
}

// mayVote reports whether this very server, not only one of its name, is in a
// configuration: in the latest that its log has, or, before the log has any, in
// that of a peer. A server id is made with the data directory, so nothing that
// was voted or stored under it can have been lost.
func (n *Node) mayVote() bool {
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.ID == n.id {
			return true
		}
	}
	return n.named.Load()
}
