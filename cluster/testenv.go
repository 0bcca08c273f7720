package cluster

import (
	"io"

	"github.com/hashicorp/raft"

	"osqueue/cluster/transport"
)

// diskLog is a raft log together with raft's votes.
type diskLog interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// testEnv replaces the disk and the network below a node's raft. With it, tests simulate
// whole nodes in one process, without disks or a network, and with a simulated clock
// (sim_*_test.go). The rest of the node is unchanged.
type testEnv struct {
	id        raft.ServerID // stored with the disk
	log       diskLog
	snapshots raft.SnapshotStore
	claims    claims // stored with the log
	net       transport.Transport
	observe   func(*replica) raft.FSM // wraps the machine in an observer
}

func (e *testEnv) stores(cfg *Config, dog *watchdog) *stores {
	s := guard(cfg, e.log, dog)
	s.snapshots = watchedSnapshots{e.snapshots, dog}
	return s
}
