package membership

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/internal/web"
)

// A server at the new node's raft address whose HTTP address the leader does not know may
// still run: raft's requests cannot tell the two apart.
func TestServerOfUnknownHTTPAddressIsNotGone(t *testing.T) {
	follower := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		web.WriteJSON(w, http.StatusOK, Identity{Name: "n2", ServerID: "n2~b"})
	}))
	defer follower.Close()
	named := []Peer{{Name: "n1", HTTP: "127.0.0.1:1"}, {Name: "n2", HTTP: follower.Listener.Addr().String()}}
	leader := &Members{cfg: Config{ID: "n1~a"}, peers: NewPeers("n1", named, follower.Client())}
	who := Identity{Name: "n9", ServerID: "n9~new", RaftAddress: "10.0.0.9:7080"}
	for name, says := range map[string]string{
		"n8": "belongs to node n8: give n9 an address of its own",
		"n9": "n9 is not in the leader's --peers",
	} {
		old := raft.Server{ID: raft.ServerID(name + "~old"), Address: raft.ServerAddress(who.RaftAddress)}
		if err := leader.isGone(t.Context(), old, who); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", old.ID, err, says)
		}
	}
	who.Name = "n2"
	err := leader.isGone(t.Context(), raft.Server{ID: "n2~b", Address: "10.0.0.9:7080"}, who)
	if err == nil || !strings.Contains(err.Error(), "is running as n2~b") {
		t.Errorf("a running follower counts as gone: %v", err)
	}
}

// A new node that does not answer at its address is told where the address comes from, and so
// what to change.
func TestAdviceForAnAddressThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	address := closed.Listener.Addr().String()
	peers := NewPeers("n1", []Peer{{Name: "n1", HTTP: "127.0.0.1:1"}, {Name: "n2", HTTP: address}}, http.DefaultClient)
	peers.Joined(func(name string) string { return map[string]string{"n4": address}[name] })
	leader := &Members{cfg: Config{ID: "n1~a"}, peers: peers}
	for name, want := range map[string]string{
		"n2": "its address in the leader's --peers; to move it, first restart",
		"n4": "the address in its join token; start it with this --http-addr",
		"n5": "make a join token for it (osqueue cert join-token)",
	} {
		err := leader.expected(t.Context(), raft.Configuration{}, Identity{Name: name, ServerID: name + "~x"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
