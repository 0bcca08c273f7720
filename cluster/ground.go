package cluster

import (
	"io"

	"github.com/hashicorp/raft"
)

// transport is what raft reaches the other nodes through. It is safe for concurrent
// use.
type transport interface {
	raft.Transport
	raft.WithPreVote

	// CloseStreams ends the connections to other nodes; they are made anew when
	// they are needed.
	CloseStreams()
	// Close ends all calls that are under way.
	Close() error
}

// diskLog is a log of raft, with its votes beside it.
type diskLog interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// ground is what a node's raft stands on, if that is not the machine that the
// process runs on: whole nodes can be simulated in one process, without disks,
// without a network, and in a time of their own (sim_*_test.go). Everything above
// is the node as it is.
type ground struct {
	id        raft.ServerID // kept with the disk
	log       diskLog
	snapshots raft.SnapshotStore
	net       transport
	observe   func(*replica) raft.FSM // puts an observer before the machine
}

func (g *ground) stores(cfg *Config, dog *watchdog) *stores {
	s := guard(cfg, g.log, dog)
	s.snapshots = g.snapshots
	return s
}

// stateMachine is what raft applies entries to.
func (n *Node) stateMachine() raft.FSM {
	if g := n.cfg.ground; g != nil {
		return g.observe(n.replica)
	}
	return n.replica
}
