package raftlog

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// A log with entries before the base does not have it: raft's leader must find nothing at the
// index of a restored state, and send the snapshot.
func TestABaseBehindEntriesIsNotInTheLog(t *testing.T) {
	snapshots := raft.NewInmemSnapshotStore()
	_, net := raft.NewInmemTransport("leader")
	withLog := open(t, Memory(), Options{})
	withSnapshots := withLog.Snapshots(snapshots)
	if err := withLog.StoreLog(&raft.Log{Index: 4, Term: 2}); err != nil {
		t.Fatal(err)
	}
	sink, err := snapshots.Create(1, 5, 2, raft.Configuration{}, 1, net)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	_, rc, err := withSnapshots.Open(sink.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	var l raft.Log
	if err := withLog.GetLog(5, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("the log has entry 4 and the base 5: %+v, %v", l, err)
	}
	if err := withLog.DeleteRange(4, 4); err != nil {
		t.Fatal(err)
	}
	if err := withLog.GetLog(5, &l); err != nil || l.Term != 2 || l.Type != baseType {
		t.Errorf("the log begins behind the base 5: %+v, %v", l, err)
	}
	if err := withLog.GetLog(4, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry in the snapshot: %v", err)
	}
}
