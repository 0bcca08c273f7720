package transport

import "github.com/hashicorp/raft"

// Transport connects raft to the other nodes. It is safe for concurrent use.
type Transport interface {
	raft.Transport
	raft.WithPreVote

	// CloseStreams closes the connections to other nodes. The transport connects again
	// when it needs to.
	CloseStreams()
	// Close ends all calls that are under way.
	Close() error
}
