package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/fsm"
)

// ring is a cluster of rafts in memory. The test says which nodes answer the leader.
type ring struct {
	*Members // of the leader
	records  map[string]Admission
	silent   map[string]bool
	behind   map[string]uint64
	handed   raft.ServerID
}

// newRing starts voters n1, n2, …, of which n1 leads, with the HTTP addresses n1:1, n2:1, ….
func newRing(t *testing.T, voters int) *ring {
	t.Helper()
	var c raft.Configuration
	var named []Peer
	for i := range voters {
		name := fmt.Sprintf("n%d", i+1)
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(name + "~a"), Address: raft.ServerAddress(name)})
		named = append(named, Peer{name, name + ":1"})
	}
	var leader *raft.Raft
	var nets []*raft.InmemTransport
	for i, s := range c.Servers {
		cfg := raft.DefaultConfig()
		cfg.LocalID, cfg.Logger = s.ID, hclog.NewNullLogger()
		if i > 0 { // only the first one calls an election
			cfg.HeartbeatTimeout, cfg.ElectionTimeout = time.Hour, time.Hour
		} else {
			cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
		}
		store, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		_, net := raft.NewInmemTransport(s.Address)
		for _, o := range nets {
			o.Connect(net.LocalAddr(), net)
			net.Connect(o.LocalAddr(), o)
		}
		nets = append(nets, net)
		if err := raft.BootstrapCluster(cfg, store, store, snapshots, net, c); err != nil {
			t.Fatal(err)
		}
		r, err := raft.NewRaft(cfg, &raft.MockFSM{}, store, store, snapshots, net)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Shutdown().Error() })
		if i == 0 {
			leader = r
		}
	}
	for end := time.Now().Add(20 * time.Second); leader.State() != raft.Leader; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("n1 does not lead")
		}
	}
	for range 100 { // more than a node may lack when it gets a vote
		if err := leader.Apply([]byte("x"), 0).Error(); err != nil {
			t.Fatal(err)
		}
	}
	g := &ring{records: map[string]Admission{}, silent: map[string]bool{}, behind: map[string]uint64{}}
	peers := NewPeers("n1", named, nil)
	peers.Admitted(func(name string) string { return g.records[name].HTTP }, func() []Peer { return nil })
	g.Members = New(Config{
		ID: "n1~a", Name: "n1", HTTPAddress: "n1:1", HeartbeatTimeout: 50 * time.Millisecond, Raft: leader, Peers: peers, Log: hclog.NewNullLogger(),
	}, Effects{
		Meta:  func() *fsm.Meta { return &fsm.Meta{} },
		Await: func(_ context.Context, f raft.Future) error { return f.Error() },
		Progress: func(id raft.ServerID) (time.Time, uint64) {
			if g.silent[NodeName(id)] {
				return time.Time{}, 0
			}
			return time.Now(), leader.CommitIndex() - min(g.behind[NodeName(id)], leader.CommitIndex())
		},
		Ask:       func() uint64 { return 1 },
		Confirmed: func(id raft.ServerID, _ uint64) bool { return !g.silent[NodeName(id)] },
		Quiet: func(id raft.ServerID, _ uint64) time.Duration {
			if g.silent[NodeName(id)] {
				return time.Hour
			}
			return 0
		},
		Admitted: func(name string) (Admission, bool) { a, ok := g.records[name]; return a, ok },
		Admissions: func() (all []Admission) {
			for _, a := range g.records {
				all = append(all, a)
			}
			return all
		},
		Admit: func(_ context.Context, records ...Admission) error {
			for _, a := range records {
				g.records[a.Name] = a
			}
			return nil
		},
		Forget:   func(_ context.Context, name string) error { delete(g.records, name); return nil },
		HandOver: func(_ context.Context, to raft.ServerID) error { g.handed = to; return nil },
	})
	return g
}

// members describes the configuration: voters, and non-voters in parentheses.
func (g *ring) members() string {
	var all []string
	for _, s := range g.raft.GetConfiguration().Configuration().Servers {
		name := NodeName(s.ID)
		if s.Suffrage != raft.Voter {
			name = "(" + name + ")"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// do makes one change and returns what it says.
func (g *ring) do(t *testing.T, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var done string
	var err error
	switch words[0] {
	case "add":
		done, err = g.Add(ctx, words[1], words[2], len(words) > 3)
	case "remove":
		done, err = g.Remove(ctx, words[1], len(words) > 2)
	case "promote":
		done, err = g.Promote(ctx, words[1])
	case "demote":
		done, err = g.Demote(ctx, words[1])
	case "transfer":
		done, err = g.Transfer(ctx, strings.Join(words[1:], ""))
	case "silent":
		g.silent[words[1]] = true
	case "answers":
		g.silent[words[1]] = false
	case "lags":
		g.behind[words[1]] = 1000
	case "comes": // what the leader does for a node that joins
		err = g.raft.AddNonvoter(raft.ServerID(words[1]+"~a"), raft.ServerAddress(words[1]), 0, time.Second).Error()
	default:
		t.Fatalf("unknown step %v", words)
	}
	if refused := (*Refusal)(nil); errors.As(err, &refused) {
		return "refused: " + err.Error()
	}
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return done
}

// Each change does what it says, and each one that would harm the cluster is refused with the reason and
// the command that is right.
func TestChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		voters  int
		steps   string // what is done, one a line, and behind => a part of the answer
		members string
	}{
		"admit a node": {1, `
			add n2 n2:9 => node n2 may join at n2:9
			add n2 n2:9 => already admitted
			add n2 n1:1 => refused: n1:1 is the address of node n1
			add n3 n2:9 => refused: n2:9 is the address of node n2
			add n2 nowhere => refused: address "nowhere" of node n2: write host:port
			add a/b n3:9 => refused: node name "a/b"
			promote n2 => refused: node n2 has not come
			demote n2 => node n2 stays without a vote
			promote n2 => gets a vote when it has come
			remove n2 => is not admitted any more
			remove n2 => refused: node n2 is neither a member nor admitted`, "n1"},
		"a twin": {3, `
			add n2 n9:1 => refused: node n2 runs as n2~a at n2:1
			add n2 n2:1 => already a member
			add n2 n2:1 non-voter => refused: node n2 is a voter: osqueue cluster demote n2
			silent n2 =>
			add n2 n9:1 => node n2 may join at n9:1`, "n1 n2 n3"},
		"remove a node that runs": {3, `
			remove n3 => refused: node n3 runs (it answered
			remove n3 force => node n3 is not a member any more
			add n3 n3:1 => node n3 may join`, "n1 n2"},
		"remove nodes that are gone": {5, `
			silent n5 =>
			remove n5 => not a member any more
			silent n4 =>
			remove n4 => not a member any more`, "n1 n2 n3"},
		"remove the majority": {3, `
			silent n3 =>
			remove n2 force => refused: without node n2, 1 of 2 voters answer, and the cluster needs 2: start n3 first, or remove it in place of n2: osqueue cluster remove n3
			demote n2 => refused: without node n2, 1 of 2 voters
			remove n3 =>
			remove n2 force => not a member any more
			remove n1 force => refused: node n1 is the only voter`, "n1"},
		"the leader": {3, `
			remove n1 force => refused: node n1 leads: give the leadership to another node, and repeat the command: osqueue cluster transfer; osqueue cluster remove n1
			demote n1 => refused: node n1 leads`, "n1 n2 n3"},
		"votes": {3, `
			demote n3 => node n3 has no vote any more
			demote n3 => stays without a vote
			lags n3 =>
			promote n3 => refused: node n3 lacks`, "(n3) n1 n2"},
		"a non-voter": {2, `
			add n3 n3:1 non-voter => may join
			comes n3 =>
			silent n3 =>
			promote n3 => refused: node n3 does not answer
			remove n2 force => not a member any more
			demote n1 => refused: node n1 is the only voter
			remove n3 => not a member any more`, "n1"},
		"transfer": {3, `
			transfer n9 => refused: node n9 is neither
			silent n2 =>
			transfer n2 => refused: node n2 does not answer
			transfer => n3
			lags n3 =>
			transfer => n3
			transfer n1 => n1
			silent n3 =>
			transfer => refused: no other voter answers`, "n1 n2 n3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRing(t, c.voters)
			for line := range strings.SplitSeq(strings.TrimSpace(c.steps), "\n") {
				step, want, _ := strings.Cut(line, "=>")
				if got := g.do(t, strings.Fields(step)...); !strings.Contains(got, strings.TrimSpace(want)) {
					t.Errorf("%s: %q, want %q", strings.TrimSpace(step), got, want)
				}
			}
			if got := g.members(); got != c.members {
				t.Errorf("the members are %q, want %q", got, c.members)
			}
		})
	}
}

// The first change by command stores the addresses of all members, so that a new node needs only one
// contact. A removed node's address is forgotten.
func TestAddressesOfAllMembersAreStored(t *testing.T) {
	t.Parallel()
	g := newRing(t, 2)
	g.do(t, "add", "n3", "n3:1")
	for _, name := range []string{"n1", "n2", "n3"} {
		if got := g.records[name]; got.HTTP != name+":1" || got.NonVoter {
			t.Errorf("the record of %s is %+v", name, got)
		}
	}
	g.do(t, "remove", "n2", "force")
	if a, ok := g.records["n2"]; ok {
		t.Errorf("n2 is still admitted: %+v", a)
	}
}
