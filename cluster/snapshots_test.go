package cluster

import (
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/raftlog"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// replicaAt returns a replica that has applied entries up to an index.
func replicaAt(t *testing.T, index uint64) *replica {
	t.Helper()
	r := newReplica(flush.NewUnflushedLog(1<<20), func(err error) { t.Error(err) })
	r.restored = func(*fsm.Machine) {}
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= index; i++ {
		r.Apply(&raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: data})
	}
	return r
}

// The state in a snapshot must not be newer than the index of the snapshot.
func TestSnapshotsOfAnotherIndexAreRefused(t *testing.T) {
	below := raft.NewInmemSnapshotStore()
	store := openLog(t, raftlog.Memory(), raftlog.Options{}).Snapshots(below)
	write := func(s raft.SnapshotStore, r *replica, index uint64) error {
		f, err := r.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		sink, err := s.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return f.Persist(sink)
	}
	start := func() error {
		mem := raft.NewInmemStore()
		cfg := raft.DefaultConfig()
		cfg.LocalID, cfg.LogLevel = "n", "off"
		_, net := raft.NewInmemTransport("n")
		r, err := raft.NewRaft(cfg, replicaAt(t, 0), mem, mem, store, net)
		if err == nil {
			err = r.Shutdown().Error()
		}
		return err
	}
	r := replicaAt(t, 5)
	if err := write(store, r, 4); err == nil {
		t.Error("a state of entry 5 went into a snapshot of entry 4")
	}
	if err := write(store, r, 6); err != nil { // the last entry is one of raft's own
		t.Error(err)
	}
	if err := start(); err != nil {
		t.Error(err)
	}
	if err := write(below, r, 4); err != nil {
		t.Fatal(err)
	}
	if err := start(); err == nil {
		t.Error("raft starts from a snapshot of entry 4 with the state of entry 5")
	}
}
