package cluster

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/transport"
)

type inmemNet struct{ *raft.InmemTransport }

func (inmemNet) CloseStreams() {}

// countingFSM counts the restored snapshots.
type countingFSM struct {
	raft.MockFSM
	restored int
}

func (f *countingFSM) Restore(rc io.ReadCloser) error {
	f.restored++
	return f.MockFSM.Restore(rc)
}

// lateFollower is a raft node behind Inbound, to which a test sends a leader's requests.
type lateFollower struct {
	t         *testing.T
	raft      *raft.Raft
	log       *raftlog.Log
	fsm       *countingFSM
	address   raft.ServerAddress
	transport *raft.InmemTransport // of the leader
}

func newLateFollower(t *testing.T) *lateFollower {
	t.Helper()
	log, fsm := raftlog.New(raftlog.Memory(), raftlog.Options{}), &countingFSM{}
	snapshots := log.Snapshots(raft.NewInmemSnapshotStore())
	address, net := raft.NewInmemTransport("follower")
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.LogOutput = "follower", testWriter{t}
	stop := make(chan struct{})
	in := transport.NewInbound(inmemNet{net}, stop, transport.InboundConfig{Log: log})
	r, err := raft.NewRaft(cfg, fsm, log, log, snapshots, in)
	if err != nil {
		t.Fatal(err)
	}
	in.Serve(r)
	done := make(chan struct{})
	go func() { in.Relay(func() bool { return true }); close(done) }()
	t.Cleanup(func() {
		_ = r.Shutdown().Error()
		close(stop)
		<-done
	})
	_, leader := raft.NewInmemTransport("leader")
	leader.Connect(address, net)
	return &lateFollower{t: t, raft: r, log: log, fsm: fsm, address: address, transport: leader}
}

func lateHeader() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("leader"), Addr: []byte("leader")}
}

// append sends the entries from prev+1 to last, all of one term.
func (f *lateFollower) append(term, prev, prevTerm, last, entryTerm, commit uint64) (success bool, err error) {
	req := raft.AppendEntriesRequest{
		RPCHeader: lateHeader(), Term: term, PrevLogEntry: prev, PrevLogTerm: prevTerm, LeaderCommitIndex: commit,
	}
	for i := prev + 1; i <= last; i++ {
		req.Entries = append(req.Entries, &raft.Log{Index: i, Term: entryTerm, Type: raft.LogNoop})
	}
	var resp raft.AppendEntriesResponse
	err = f.transport.AppendEntries("follower", f.address, &req, &resp)
	return resp.Success, err
}

func (f *lateFollower) mustAppend(term, prev, prevTerm, last, entryTerm, commit uint64) {
	f.t.Helper()
	if ok, err := f.append(term, prev, prevTerm, last, entryTerm, commit); err != nil || !ok {
		f.t.Fatalf("the follower refuses the entries %d to %d of term %d: success %v, error %v", prev+1, last, entryTerm, ok, err)
	}
}

// install sends a snapshot, and checks that the follower reads all of it.
func (f *lateFollower) install(term, index, entryTerm uint64) (success bool, err error) {
	f.t.Helper()
	servers := raft.Configuration{Servers: []raft.Server{{ID: "follower", Address: f.address}, {ID: "leader", Address: "leader"}}}
	body := bytes.NewReader([]byte{0x90}) // no entries
	req := raft.InstallSnapshotRequest{
		RPCHeader: lateHeader(), Term: term, SnapshotVersion: 1, LastLogIndex: index, LastLogTerm: entryTerm, Size: 1,
		Configuration: raft.EncodeConfiguration(servers), ConfigurationIndex: 1,
	}
	var resp raft.InstallSnapshotResponse
	err = f.transport.InstallSnapshot("follower", f.address, &req, &resp, body)
	if body.Len() > 0 {
		f.t.Errorf("the follower has not read the snapshot of entry %d", index)
	}
	return resp.Success, err
}

// last checks the newest entry in the log, not only in raft's memory.
func (f *lateFollower) last(index, term uint64) {
	f.t.Helper()
	if got, ok := f.log.TermAt(index); !ok || got != term || f.raft.LastIndex() != index {
		f.t.Fatalf("raft ends at entry %d, and the log has entry %d: %v, of term %d; want term %d", f.raft.LastIndex(), index, ok, got, term)
	}
}

// A snapshot comes late, below, at and behind the position that the follower has reached.
// Then the leader continues behind the snapshot, as raft's replication does after a success.
func TestALateSnapshotKeepsTheLog(t *testing.T) {
	f := newLateFollower(t)
	if ok, err := f.install(2, 50, 2); !ok || err != nil || f.fsm.restored != 1 {
		t.Fatalf("the first snapshot: success %v, error %v, restored %d times", ok, err, f.fsm.restored)
	}
	f.mustAppend(2, 50, 2, 90, 2, 80)
	for _, index := range []uint64{50, 30, 70, 80, 90} { // again, older, and newer ones that are in the log
		if ok, err := f.install(2, index, 2); !ok || err != nil {
			t.Fatalf("the snapshot of entry %d: success %v, error %v", index, ok, err)
		}
		if f.last(90, 2); f.fsm.restored != 1 || f.raft.AppliedIndex() != 80 {
			t.Fatalf("the snapshot of entry %d: %d are restored, %d is applied", index, f.fsm.restored, f.raft.AppliedIndex())
		}
		f.mustAppend(2, index, 2, min(index+20, 90), 2, 80) // also below the log, which begins at 51
		f.last(90, 2)
	}
	if ok, err := f.install(2, 95, 2); !ok || err != nil || f.fsm.restored != 2 {
		t.Fatalf("a newer snapshot: success %v, error %v, restored %d times", ok, err, f.fsm.restored)
	}
	f.mustAppend(2, 95, 2, 99, 2, 99)
	f.last(99, 2)
}

// The log of the follower has another entry where the snapshot ends, which is not committed. The
// follower takes the snapshot and the entries behind it, although raft remembers the end of its old log.
func TestASnapshotReplacesAnUncommittedEnd(t *testing.T) {
	f := newLateFollower(t)
	f.mustAppend(2, 0, 0, 90, 2, 40)
	if ok, err := f.install(4, 50, 3); !ok || err != nil || f.fsm.restored != 1 {
		t.Fatalf("the snapshot: success %v, error %v, restored %d times", ok, err, f.fsm.restored)
	}
	f.mustAppend(4, 50, 3, 60, 4, 50)
	f.last(60, 4)
	f.mustAppend(4, 60, 4, 95, 4, 95)
	f.last(95, 4)
}

// No correct leader sends these. The answer says what to do if the sender is the leader.
func TestAForeignHistoryIsRefused(t *testing.T) {
	for name, send := range map[string]func(*lateFollower) (bool, error){
		"committed entry replaced":        func(f *lateFollower) (bool, error) { return f.append(50, 60, 2, 70, 50, 0) },
		"from the beginning":              func(f *lateFollower) (bool, error) { return f.append(50, 0, 0, 1, 50, 1) },
		"below the log, of a later term":  func(f *lateFollower) (bool, error) { return f.append(50, 20, 2, 21, 50, 0) },
		"snapshot of a committed entry":   func(f *lateFollower) (bool, error) { return f.install(50, 70, 49) },
		"snapshot of the base":            func(f *lateFollower) (bool, error) { return f.install(50, 50, 1) },
		"snapshot below, of a later term": func(f *lateFollower) (bool, error) { return f.install(50, 20, 49) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newLateFollower(t)
			if ok, err := f.install(2, 50, 2); !ok || err != nil {
				t.Fatal(ok, err)
			}
			f.mustAppend(2, 50, 2, 90, 2, 80)
			ok, err := send(f)
			if ok || err == nil || !strings.Contains(err.Error(), "delete its data directory") {
				t.Errorf("success %v, error %v", ok, err)
			}
			f.last(90, 2)
			if f.fsm.restored != 1 || f.raft.AppliedIndex() != 80 {
				t.Errorf("%d are restored, %d is applied", f.fsm.restored, f.raft.AppliedIndex())
			}
		})
	}
}

// Entries that are not committed are replaced by a later leader, and a request of a leader that
// was replaced changes nothing.
func TestAnUncommittedEndIsReplaced(t *testing.T) {
	f := newLateFollower(t)
	f.mustAppend(2, 0, 0, 90, 2, 80)
	f.mustAppend(3, 78, 2, 80, 2, 80) // repeats what is committed
	f.mustAppend(3, 80, 2, 85, 3, 85)
	f.last(85, 3)
	if ok, _ := f.append(2, 80, 2, 90, 2, 90); ok {
		t.Error("the leader of an older term appends")
	}
	if ok, _ := f.install(2, 85, 2); ok {
		t.Error("the leader of an older term installs a snapshot")
	}
	f.last(85, 3)
}

// If raft cleared the log behind a snapshot that lacks committed entries, the node ends instead.
func TestALogKeepsCommittedEntries(t *testing.T) {
	f := newLateFollower(t)
	f.mustAppend(2, 0, 0, 90, 2, 80)
	remove := func(newest, from, to uint64) (err, ended error) {
		l := raftlog.New(storeOf{f.log}, raftlog.Options{Fatal: func(err error) { ended = err }})
		l.Snapshots(snapshotOf(newest))
		l.Serve(f.raft)
		return l.DeleteRange(from, to), ended
	}
	if err, ended := remove(50, 1, 90); err == nil || ended == nil {
		t.Errorf("error %v, the node ends with %v", err, ended)
	}
	f.last(90, 2)
	if err, ended := remove(50, 81, 90); err != nil || ended != nil {
		t.Errorf("entries that are not committed: %v, %v", err, ended)
	}
	if err, ended := remove(80, 1, 80); err != nil || ended != nil {
		t.Errorf("entries that are in a snapshot are kept: %v, %v", err, ended)
	}
}

// storeOf is the log of a node as the store of another one.
type storeOf struct{ *raftlog.Log }

// snapshotOf is a store with one snapshot.
type snapshotOf uint64

func (snapshotOf) Create(
	raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport,
) (raft.SnapshotSink, error) {
	return nil, errors.ErrUnsupported
}

func (s snapshotOf) List() ([]*raft.SnapshotMeta, error) {
	return []*raft.SnapshotMeta{{Index: uint64(s)}}, nil
}

func (snapshotOf) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return nil, nil, errors.ErrUnsupported
}
