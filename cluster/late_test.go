package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/transport"
	"osqueue/internal/storagetest/script"
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
	disk      raftlog.Disk
	log       *raftlog.Log
	fsm       *countingFSM
	address   raft.ServerAddress
	transport *raft.InmemTransport // of the leader
}

func newLateFollower(t *testing.T) *lateFollower {
	t.Helper()
	disk, fsm := raftlog.Memory(), &countingFSM{}
	log := openLog(t, disk, raftlog.Options{})
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
	return &lateFollower{t: t, raft: r, disk: disk, log: log, fsm: fsm, address: address, transport: leader}
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

// TestLateRequests plays the files of testdata/late: requests of a leader, which may come late, and what the follower
// has then. "append TERM PREV PREVTERM LAST ENTRYTERM COMMIT" sends the entries from PREV+1 to LAST, all of one term,
// and "install TERM INDEX ENTRYTERM" a snapshot.
func TestLateRequests(t *testing.T) {
	datadriven.Walk(t, "testdata/late", func(t *testing.T, path string) {
		f := newLateFollower(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, c := range script.Input(t, d) {
				n := make([]uint64, 6)
				for i := range c.IDs {
					n[i] = uint64(script.Number(t, c.ID(i)))
				}
				var ok bool
				var err error
				switch c.Name {
				case "append":
					ok, err = f.append(n[0], n[1], n[2], n[3], n[4], n[5])
				case "install":
					ok, err = f.install(n[0], n[1], n[2])
				}
				fmt.Fprintln(&out, f.describe(ok, err))
			}
			return out.String()
		})
	})
}

// describe prints the answer to a request, and the newest entry in the log, not only in raft's memory.
func (f *lateFollower) describe(ok bool, err error) string {
	for end := time.Now().Add(5 * time.Second); f.raft.AppliedIndex() < f.raft.CommitIndex() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	last := f.raft.LastIndex()
	term, there := f.log.TermAt(last)
	text := fmt.Sprintf("success %v, the log ends with %d of term %d (%v), applied %d, restored %d", ok, last, term, there, f.raft.AppliedIndex(), f.fsm.restored)
	if err != nil {
		text += ": " + err.Error()
	}
	return text
}

// If raft cleared the log behind a snapshot that lacks committed entries, the node ends instead.
func TestALogKeepsCommittedEntries(t *testing.T) {
	f := newLateFollower(t)
	if ok, err := f.append(2, 0, 0, 90, 2, 80); err != nil || !ok {
		t.Fatal(ok, err)
	}
	remove := func(newest, from, to uint64) (err, ended error) {
		l := openLog(t, f.disk, raftlog.Options{Fatal: func(err error) { ended = err }})
		l.Snapshots(snapshotOf(newest))
		l.Serve(f.raft)
		return l.DeleteRange(from, to), ended
	}
	if err, ended := remove(50, 1, 90); err == nil || ended == nil {
		t.Errorf("error %v, the node ends with %v", err, ended)
	}
	if term, ok := f.log.TermAt(90); !ok || term != 2 || f.raft.LastIndex() != 90 {
		t.Fatalf("the log has lost its end: %v, term %d", ok, term)
	}
	if err, ended := remove(50, 81, 90); err != nil || ended != nil {
		t.Errorf("entries that are not committed: %v, %v", err, ended)
	}
	if err, ended := remove(80, 1, 80); err != nil || ended != nil {
		t.Errorf("entries that are in a snapshot are kept: %v, %v", err, ended)
	}
}

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
