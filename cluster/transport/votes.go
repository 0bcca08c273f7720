package transport

import (
	"errors"

	"github.com/hashicorp/raft"
)

// A candidate asks for votes by address. Raft's handler does not know which server the
// candidate meant and, while its own configuration is empty, whether this node is a
// member at all. So a node that lost its disk would vote in the place of its predecessor,
// for a log without the entries that the predecessor had helped to commit. Such a node
// may follow and store entries, but it votes only under a configuration that contains its
// own id. The leader writes that configuration when the node joins (cluster/membership).

var errNoVote = errors.New("this node may not vote: it is not in its own configuration, because it lost its disk and has " +
	"not rejoined, or was removed")

func asksForVote(rpc raft.RPC) bool {
	switch rpc.Command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		return true
	default:
		return false
	}
}
