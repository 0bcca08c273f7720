package transport

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// wire is a transport whose other end is the test.
type wire struct {
	*raft.InmemTransport
	heartbeat func(raft.RPC)
}

func (w *wire) SetHeartbeatHandler(h func(raft.RPC)) { w.heartbeat = h }
func (w *wire) CloseStreams()                        {}

// send delivers a heartbeat, as the goroutine of its connection does, and returns the
// channel of the answer.
func (w *wire) send(from string, term uint64) <-chan raft.RPCResponse {
	answer := make(chan raft.RPCResponse, 1)
	w.heartbeat(raft.RPC{RespChan: answer, Command: &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(from), Addr: []byte(from)},
		Term:      term,
	}})
	return answer
}

type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("none") }
func (nothing) Restore(io.ReadCloser) error         { return nil }
func stopRaft(t *testing.T, r *raft.Raft)           { t.Helper(); _ = r.Shutdown().Error() }

// startRaft starts a raft that is its own majority, and waits until it leads.
func startRaft(t *testing.T) (*raft.Raft, *wire, *raft.InmemStore) {
	t.Helper()
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = "a", hclog.NewNullLogger()
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 25*time.Millisecond
	addr, mem := raft.NewInmemTransport("a")
	w, store, stop := &wire{InmemTransport: mem}, raft.NewInmemStore(), make(chan struct{})
	in := NewInbound(w, stop, InboundConfig{})
	r, err := raft.NewRaft(c, nothing{}, store, store, raft.NewInmemSnapshotStore(), in)
	if err != nil {
		t.Fatal(err)
	}
	in.Serve(r)
	done := make(chan struct{})
	go func() { in.Relay(func() bool { return true }); close(done) }()
	t.Cleanup(func() {
		stopRaft(t, r)
		close(stop)
		<-done
	})
	one := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: addr}}}
	if err := r.BootstrapCluster(one).Error(); err != nil {
		t.Fatal(err)
	}
	for !<-r.LeaderCh() {
		continue
	}
	return r, w, store
}

// A leader has been replaced and does not know it. If it accepts an entry while the first
// heartbeat of its successor arrives, it must not store the entry under the successor's
// term.
func TestNoEntryUnderASuccessorsTerm(t *testing.T) {
	for range 20 {
		r, w, store := startRaft(t)
		term := r.CurrentTerm()
		answer := w.send("b", term+1)
		applied := r.Apply([]byte("late"), time.Second)
		<-answer
		_ = applied.Error() // the node was still the leader, or no longer
		last, err := store.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		var l raft.Log
		if err := store.GetLog(last, &l); err != nil {
			t.Fatal(err)
		}
		if l.Type == raft.LogCommand && l.Term != term {
			t.Fatalf("a leader of term %d has stored an entry of term %d", term, l.Term)
		}
		stopRaft(t, r)
	}
}

// standing is a raft that is paused.
type standing struct {
	state  raft.RaftState
	term   uint64
	leader raft.ServerID
}

func (s standing) CommitIndex() uint64  { return 40 }
func (s standing) AppliedIndex() uint64 { return 40 }

func (s standing) State() raft.RaftState                             { return s.state }
func (s standing) CurrentTerm() uint64                               { return s.term }
func (s standing) LastIndex() uint64                                 { return 42 }
func (s standing) LeaderWithID() (raft.ServerAddress, raft.ServerID) { return "", s.leader }

func TestHeartbeatsThatChangeNothingAreAnsweredAtOnce(t *testing.T) {
	follows := standing{raft.Follower, 7, "b"}
	for name, c := range map[string]struct {
		raft standing
		from string
		term uint64
		here bool // answered without raft
	}{
		"of its leader":          {follows, "b", 7, true},
		"of a later term":        {follows, "b", 8, false},
		"of an older term":       {follows, "b", 6, false},
		"of somebody else":       {follows, "c", 7, false},
		"to a candidate":         {standing{raft.Candidate, 7, ""}, "b", 7, false},
		"to a leader":            {standing{raft.Leader, 7, "a"}, "b", 8, false},
		"before it knows of one": {standing{raft.Follower, 7, ""}, "b", 7, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, mem := raft.NewInmemTransport("a")
			w, stop := &wire{InmemTransport: mem}, make(chan struct{})
			in := NewInbound(w, stop, InboundConfig{})
			in.Serve(c.raft)
			// The test does not read the requests: raft's main goroutine writes to a slow
			// disk.
			done := make(chan struct{})
			go func() { in.Relay(func() bool { return true }); close(done) }()
			for range 3 {
				answers := make(chan (<-chan raft.RPCResponse), 1)
				go func() { answers <- w.send(c.from, c.term) }()
				if !c.here {
					rpc := <-in.Consumer()
					rpc.Respond(&raft.AppendEntriesResponse{Term: c.raft.term}, nil)
				}
				a := <-<-answers
				resp, ok := a.Response.(*raft.AppendEntriesResponse)
				if !ok || a.Error != nil {
					t.Fatalf("answer %+v", a)
				}
				if c.here && (!resp.Success || resp.Term != 7 || resp.LastLog != 42) {
					t.Fatalf("answer %+v", resp)
				}
			}
			if c.here { // raft learns once that its leader is alive, for all heartbeats that it missed
				sign := <-in.Consumer()
				if sign.Command.(*raft.AppendEntriesRequest).Term != c.term {
					t.Fatalf("raft gets %+v", sign.Command)
				}
			}
			close(stop)
			<-done
		})
	}
}
