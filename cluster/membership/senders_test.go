package membership

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/fsm"
	"osqueue/internal/web"
)

// sendersOf starts a node with a configuration, whose peer p answers as said.
func sendersOf(t *testing.T, servers []raft.Server, says *Identity) *Members {
	t.Helper()
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		web.WriteJSON(w, http.StatusOK, says)
	}))
	t.Cleanup(peer.Close)
	store, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.Logger = "n1~a", hclog.NewNullLogger()
	_, net := raft.NewInmemTransport("n1")
	if len(servers) > 0 {
		if err := raft.BootstrapCluster(cfg, store, store, snapshots, net, raft.Configuration{Servers: servers}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := raft.NewRaft(cfg, &raft.MockFSM{}, store, store, snapshots, net)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Shutdown().Error() })
	named := []Peer{{Name: "n1", HTTP: "127.0.0.1:1"}, {Name: "p", HTTP: peer.Listener.Addr().String()}}
	n := New(Config{ID: "n1~a", Name: "n1", Raft: r, Peers: NewPeers("n1", named, peer.Client())}, Effects{
		Meta: func() *fsm.Meta { return &fsm.Meta{Cluster: "own"} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { n.Meet(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

// A node takes requests of raft from its members, and from those of its peers' configurations:
// its own may be empty or old.
func TestWhoseRequestsANodeTakes(t *testing.T) {
	server := func(ids ...raft.ServerID) (all []raft.Server) {
		for _, id := range ids {
			all = append(all, raft.Server{ID: id, Address: raft.ServerAddress(id)})
		}
		return all
	}
	peer := func(cluster string, empty bool) *Identity {
		return &Identity{Name: "p", ServerID: "p~1", Cluster: cluster, Empty: empty, Members: []string{"p~1", "n9~new"}}
	}
	for name, c := range map[string]struct {
		servers []raft.Server
		peer    *Identity
		id      raft.ServerID
		want    bool
	}{
		"of a member":                         {server("n1~a", "n2~b"), peer("other", false), "n2~b", true},
		"of one that joined meanwhile":        {server("n1~a", "n2~b"), peer("own", false), "n9~new", true},
		"of nobody":                           {server("n1~a", "n2~b"), peer("own", false), "", false},
		"of itself":                           {server("n1~a", "n2~b"), peer("own", false), "n1~a", false},
		"of a stranger":                       {server("n1~a", "n2~b"), peer("own", false), "n8~x", false},
		"of a member of another cluster":      {server("n1~a", "n2~b"), peer("other", false), "n9~new", false},
		"to a single node":                    {server("n1~a"), peer("own", false), "n9~new", false},
		"to a new node, of its cluster":       {nil, peer("own", false), "n9~new", true},
		"to a new node, of a stranger":        {nil, peer("own", false), "n8~x", false},
		"to a new node, of one that is empty": {nil, peer("", true), "p~1", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := sendersOf(t, c.servers, c.peer)
			first := n.MaySend(c.id) // it may have to ask
			if first == nil && !c.want {
				t.Fatal("the request is taken")
			}
			for end := time.Now().Add(10 * time.Second); c.want && n.MaySend(c.id) != nil; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal(n.MaySend(c.id))
				}
			}
			if !c.want {
				peers, _ := n.peers.AskAll(t.Context())
				if n.meet(peers); n.MaySend(c.id) == nil {
					t.Error("the request is taken, when the peers have answered")
				}
			}
		})
	}
}
