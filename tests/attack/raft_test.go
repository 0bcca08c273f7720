package attack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/tests/cluster"
)

// stranger sends raft requests to one node in the name of its leader.
type stranger struct {
	net    *raft.NetworkTransport
	to     *cluster.Node
	header raft.RPCHeader
	term   uint64
	last   uint64 // index of the newest entry
}

func newStranger(t *testing.T, g *target, to *cluster.Node) *stranger {
	t.Helper()
	at, err := raft.NewTCPTransportWithLogger("127.0.0.1:0", nil, 1, 2*time.Second, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = at.Close() })
	s := g.status(to)
	leader := g.status(g.WaitLeader())
	return &stranger{
		net: at, to: to, term: s.Term, last: s.CommitIndex,
		header: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader.ServerID), Addr: []byte(g.WaitLeader().Raft)},
	}
}

// entries returns a request with entries after the newest one of the node.
func (s *stranger) entries(term uint64, all ...*raft.Log) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{RPCHeader: s.header, Term: term, PrevLogEntry: s.last, PrevLogTerm: term, Entries: all, LeaderCommitIndex: s.last}
}

// send sends a request and returns the error with which the node refuses it.
func (s *stranger) send(request any) error {
	to := raft.ServerAddress(s.to.Raft)
	switch r := request.(type) {
	case *raft.AppendEntriesRequest:
		return s.net.AppendEntries("", to, r, new(raft.AppendEntriesResponse))
	case *raft.RequestVoteRequest:
		return s.net.RequestVote("", to, r, new(raft.RequestVoteResponse))
	case *raft.RequestPreVoteRequest:
		return s.net.RequestPreVote("", to, r, new(raft.RequestPreVoteResponse))
	case *raft.TimeoutNowRequest:
		return s.net.TimeoutNow("", to, r, new(raft.TimeoutNowResponse))
	case *raft.InstallSnapshotRequest:
		return s.net.InstallSnapshot("", to, r, new(raft.InstallSnapshotResponse), io.LimitReader(zeros{}, min(max(r.Size, 0), 1<<20)))
	}
	panic("no such request")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Forged raft requests are refused before raft sees them: a missing entry or a broken
// configuration would end the process (S2), the last term would end all elections (S3), and
// anybody could call an election (S11).
func TestForgedRaftRequests(t *testing.T) {
	t.Parallel()
	g := newTarget(t, 3)
	leader, follower := g.WaitLeader(), g.Follower()
	config := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "n1~x", Address: "127.0.0.1:1"}}})
	for _, to := range []*cluster.Node{follower, leader} {
		s := newStranger(t, g, to)
		next := func(l raft.Log) *raft.Log {
			l.Index, l.Term = s.last+1, s.term
			return &l
		}
		alien := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n9~alien"), Addr: []byte("127.0.0.1:1")}
		snapshot := func(term uint64, size int64, config []byte) *raft.InstallSnapshotRequest {
			return &raft.InstallSnapshotRequest{
				RPCHeader: alien, SnapshotVersion: 1, Term: term, Leader: []byte("127.0.0.1:1"),
				LastLogIndex: s.last + 100, LastLogTerm: s.term, Configuration: config, ConfigurationIndex: 1, Size: size,
			}
		}
		heartbeat := func(term uint64) *raft.AppendEntriesRequest {
			return &raft.AppendEntriesRequest{RPCHeader: alien, Term: term}
		}
		for name, request := range map[string]any{
			"a nil entry":                   s.entries(s.term, nil),
			"a nil entry after a good one":  s.entries(s.term, next(raft.Log{Type: raft.LogNoop}), nil),
			"a gap between entries":         s.entries(s.term, &raft.Log{Index: s.last + 5, Term: s.term}),
			"an entry of a later term":      s.entries(s.term, &raft.Log{Index: s.last + 1, Term: s.term + 1}),
			"an entry of an unknown type":   s.entries(s.term, next(raft.Log{Type: 200})),
			"a broken configuration entry":  s.entries(s.term, next(raft.Log{Type: raft.LogConfiguration, Data: []byte("\xc1\xc1")})),
			"a configuration of nobody":     s.entries(s.term, next(raft.Log{Type: raft.LogConfiguration})),
			"a heartbeat of the last term":  heartbeat(math.MaxUint64),
			"entries of the last term":      s.entries(math.MaxUint64),
			"a term 2^33 ahead":             heartbeat(s.term + 1<<33),
			"a vote of the last term":       &raft.RequestVoteRequest{RPCHeader: s.header, Term: math.MaxUint64, LastLogIndex: math.MaxUint64, LastLogTerm: math.MaxUint64, LeadershipTransfer: true},
			"a pre-vote of the last term":   &raft.RequestPreVoteRequest{RPCHeader: s.header, Term: math.MaxUint64},
			"a snapshot of the last term":   snapshot(math.MaxUint64, 10, config),
			"a snapshot of 8 EiB":           snapshot(s.term, math.MaxInt64, config),
			"a snapshot of negative size":   snapshot(s.term, -1, config),
			"a snapshot with broken config": snapshot(s.term+1, 10, []byte("\xc1")),
			"a transfer by a stranger":      &raft.TimeoutNowRequest{RPCHeader: alien},
			"a transfer by nobody":          &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}},
		} {
			g.attack(name+" to "+to.Name, func(t *testing.T) {
				for range 3 {
					if err := s.send(request); err == nil {
						t.Error("the node accepts it")
					} else if refused := strings.Contains(err.Error(), "this node refuses the request"); !refused && !broke(err) {
						t.Errorf("the node answers %v", err)
					}
				}
			})
		}
	}
	g.settled()
}

// An append that replaces entries from the beginning of the log is refused, also from a stranger who
// knows the id of the leader, and in a later term. A sender without the id of a member is not heard, and a
// single node hears no other. The nodes still start again.
func TestForgedHistories(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		g := newTarget(t, nodes)
		to := g.WaitLeader()
		if nodes > 1 {
			to = g.Follower()
		}
		s := newStranger(t, g, to)
		from := func(id string) raft.RPCHeader {
			return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte("127.0.0.1:1")}
		}
		garbage := func(h raft.RPCHeader) *raft.AppendEntriesRequest {
			return &raft.AppendEntriesRequest{RPCHeader: h, Term: s.term, PrevLogEntry: 1, PrevLogTerm: 1, Entries: []*raft.Log{
				{Index: 2, Term: s.term, Type: raft.LogCommand, Data: []byte("garbage")},
			}}
		}
		later := func(h raft.RPCHeader) *raft.AppendEntriesRequest {
			r := garbage(h)
			r.Term, r.Entries[0].Term = s.term+10, s.term+10
			return r
		}
		for name, request := range map[string]any{
			"garbage of nobody":                 garbage(from("")),
			"garbage of nobody in a later term": later(from("")),
			"garbage of an unknown node":        later(from("n9~alien")),
			"a heartbeat of nobody":             &raft.AppendEntriesRequest{RPCHeader: from(""), Term: s.term + 10},
			"a vote of nobody":                  &raft.RequestVoteRequest{RPCHeader: from(""), Term: s.term + 10, LeadershipTransfer: true},
			"a vote of an unknown node":         &raft.RequestVoteRequest{RPCHeader: from("n9~alien"), Term: s.term + 10, LeadershipTransfer: true},
		} {
			g.attack(fmt.Sprintf("%s to one of %d", name, nodes), func(t *testing.T) {
				if err := s.send(request); err == nil || !strings.Contains(err.Error(), "this node refuses the request") {
					t.Errorf("the node answers %v", err)
				}
			})
		}
		g.settled()
		counted(t, 1)
		if err := s.send(later(s.header)); err == nil || !strings.Contains(err.Error(), "this node refuses the request") {
			t.Errorf("the node answers %v to garbage with the id of its leader", err)
		}
		for _, n := range g.Nodes {
			n.Kill()
		}
		for _, n := range g.Nodes {
			n.Start()
		}
		g.WaitLeader()
		g.bystand()
	}
}

// broke reports whether a connection broke off: the node closes those with a snapshot that it
// does not read.
func broke(err error) bool {
	op := new(net.OpError)
	return errors.Is(err, io.EOF) || errors.As(err, &op)
}

// Bytes that are no request, or are a larger one than any node sends, cost a bounded amount of
// memory (S10): the connection is closed as soon as that is known.
func TestFloodsOfTheRaftPort(t *testing.T) {
	g := newTarget(t, 3)
	to := g.Follower()
	list := func(n int) []byte { // a request whose entries are one byte each
		return append([]byte{0, 0x81, 0xa7, 'E', 'n', 't', 'r', 'i', 'e', 's', 0xdd, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, bytes.Repeat([]byte{0x80}, n)...)
	}
	text := append([]byte{0, 0x81, 0xa6, 'L', 'e', 'a', 'd', 'e', 'r', 0xc6, 0x3f, 0xff, 0xff, 0xff}, make([]byte, 8<<20)...)
	large := append([]byte{0, 0x81, 0xa6, 'L', 'e', 'a', 'd', 'e', 'r', 0xc6, 0x01, 0xf0, 0, 0}, make([]byte, 24<<20)...)
	for name, c := range map[string]struct {
		data []byte
		n    int // connections
	}{
		"one-byte entries":           {list(10 << 20), 4},
		"a text of 1 GiB":            {text, 4},
		"many texts of 24 MiB":       {large, 16},
		"a list of 4 billion":        {[]byte{0, 0x81, 0xa7, 'E', 'n', 't', 'r', 'i', 'e', 's', 0xdd, 0xff, 0xff, 0xff, 0xff}, 16},
		"lists in lists":             {append([]byte{0}, bytes.Repeat([]byte{0x91}, 1<<20)...), 4},
		"HTTP":                       {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 4},
		"TLS":                        {[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 4},
		"a request that breaks off":  {[]byte{0, 0x81, 0xa4, 'T', 'e'}, 4},
		"an unknown kind of request": {[]byte{99}, 4},
		"nothing":                    {nil, 140},
	} {
		g.attack(name, func(t *testing.T) {
			for range c.n {
				conn := dial(t, to.Raft)
				if err := conn.SetWriteDeadline(time.Now().Add(3 * time.Second)); err != nil {
					t.Fatal(err)
				}
				_, _ = conn.Write(c.data) // the node may close it before
			}
		})
	}
	g.settled()
}

// A snapshot that does not come to its end leaves no file behind, and does not stop the node
// (S11): neither while its sender is silent, nor after a crash.
func TestSnapshotsThatBreakOff(t *testing.T) {
	t.Parallel()
	g := newTarget(t, 1)
	n := g.Nodes[0]
	s := newStranger(t, g, n)
	config := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "n9~alien", Address: "127.0.0.1:1"}}})
	left := func() []string {
		all, err := filepath.Glob(filepath.Join(n.Dir, "data", "snapshots", "*.tmp"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for range 3 {
		err := s.send(&raft.InstallSnapshotRequest{
			RPCHeader: s.header, SnapshotVersion: 1, Term: s.term, Leader: []byte("127.0.0.1:1"),
			LastLogIndex: s.last + 100, LastLogTerm: s.term, Configuration: config, ConfigurationIndex: 1, Size: 300 << 20,
		})
		if err == nil {
			t.Error("a leader accepts a snapshot of its own term")
		}
	}
	g.Eventually(patience, "the files to be removed", func() error {
		if all := left(); len(all) > 0 {
			return errors.New(strings.Join(all, " "))
		}
		return nil
	})
	g.settled()

	n.Kill()
	if err := os.MkdirAll(filepath.Join(n.Dir, "data", "snapshots", "9-900-1.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.Start()
	g.WaitLeader()
	if all := left(); len(all) > 0 {
		t.Errorf("a crash leaves %q", all)
	}
}
