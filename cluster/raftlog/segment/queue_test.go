package segment_test

import (
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/raftlog/segment"
)

// raftNode is one of three voters.
type raftNode struct{ leads *bool }

func (n raftNode) State() raft.RaftState {
	if *n.leads {
		return raft.Leader
	}
	return raft.Follower
}

func (raftNode) CommitIndex() uint64 { return 0 }

func (raftNode) GetConfiguration() raft.ConfigurationFuture { return threeVoters{} }

type threeVoters struct{ raft.ConfigurationFuture }

func (threeVoters) Configuration() raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}}}
}

// store is a log without votes.
type store struct {
	*segment.Log
	raft.StableStore
}

func queueOf(l *segment.Log, leads *bool) segment.Queue {
	q := raftlog.New(store{Log: l}, raftlog.Options{Fatal: func(error) {}})
	q.Serve(raftNode{leads})
	return q
}

// TestPowerCutsOfTheQueue cuts the power while the queue of a leader writes to the log. After it
// the log must have every entry whose answer was released, and nothing but a prefix of the
// entries that were queued.
func TestPowerCutsOfTheQueue(t *testing.T) {
	histories, lost := uint64(600), 0
	if testing.Short() {
		histories = 150
	}
	for seed := range histories {
		less, err := segment.QueueCut(seed, queueOf)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if less {
			lost++
		}
	}
	if t.Logf("%d of %d logs lack the end of the queue", lost, histories); lost == 0 {
		t.Error("no entry was lost: nothing was queued")
	}
}
