package cluster

import (
	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/transport"
)

// testEnv replaces the disk and the network below a node's raft. With it, tests simulate
// whole nodes in one process, without disks or a network, and with a simulated clock
// (sim_*_test.go). The rest of the node is unchanged.
type testEnv struct {
	id        raft.ServerID // stored with the disk
	log       raftlog.Store
	snapshots raft.SnapshotStore
	witness   raftlog.WitnessStore // stored with the log
	net       transport.Transport
	observe   func(*replica) raft.FSM // wraps the machine in an observer
}
