package raftlog

import (
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A leader repeats a request whose answer was lost. The follower has begun with a snapshot,
// and its log does not have the entry before the request.
func TestRepeatedRequestBehindASnapshot(t *testing.T) {
	snapshots, logs := raft.NewInmemSnapshotStore(), raft.NewInmemStore()
	address, net := raft.NewInmemTransport("follower")
	servers := raft.Configuration{Servers: []raft.Server{{ID: "follower", Address: address}, {ID: "leader", Address: "leader"}}}
	sink, err := snapshots.Create(1, 5, 2, servers, 1, net)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write([]byte{0x90}); err != nil { // no entries
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.Logger = "follower", hclog.NewNullLogger()
	withLog := New(memory{logs}, Options{})
	withSnapshots := withLog.Snapshots(snapshots)
	r, err := raft.NewRaft(cfg, &raft.MockFSM{}, withLog, withLog, withSnapshots, net)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Shutdown().Error() })

	_, leader := raft.NewInmemTransport("leader")
	leader.Connect(address, net)
	send := func(prev, prevTerm, term uint64, entries ...*raft.Log) bool {
		t.Helper()
		req := raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("leader"), Addr: []byte("leader")},
			Term:      term, PrevLogEntry: prev, PrevLogTerm: prevTerm, Entries: entries,
		}
		var resp raft.AppendEntriesResponse
		if err := leader.AppendEntries("follower", address, &req, &resp); err != nil {
			t.Fatal(err)
		}
		return resp.Success
	}
	entry := func(index, term uint64) *raft.Log { return &raft.Log{Index: index, Term: term, Type: raft.LogNoop} }
	for range 2 {
		if !send(5, 2, 3, entry(6, 3)) {
			t.Fatal("the follower refuses the entry behind its snapshot")
		}
	}
	if send(5, 1, 3, entry(6, 3)) {
		t.Error("the follower accepts an entry behind another term than that of its snapshot")
	}
	if !send(5, 2, 4, entry(6, 4), entry(7, 4)) {
		t.Error("the follower refuses the entries of a later leader")
	}
	if r.LastIndex() != 7 {
		t.Errorf("the log ends at %d, want 7", r.LastIndex())
	}
	var l raft.Log
	if err := withLog.GetLog(4, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry in the snapshot: %v", err)
	}
}

// A log with entries before the base does not have it: raft's leader must find nothing at the
// index of a restored state, and send the snapshot.
func TestABaseBehindEntriesIsNotInTheLog(t *testing.T) {
	snapshots, logs := raft.NewInmemSnapshotStore(), raft.NewInmemStore()
	_, net := raft.NewInmemTransport("leader")
	withLog := New(memory{logs}, Options{})
	withSnapshots := withLog.Snapshots(snapshots)
	if err := logs.StoreLog(&raft.Log{Index: 4, Term: 2}); err != nil {
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
	if err := logs.DeleteRange(4, 4); err != nil {
		t.Fatal(err)
	}
	if err := withLog.GetLog(5, &l); err != nil || l.Term != 2 || l.Type != baseType {
		t.Errorf("the log begins behind the base 5: %+v, %v", l, err)
	}
}
