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
	leader := &Members{cfg: Config{ID: "n1~a"}, peers: NewPeers("n1", named, follower.Client()), do: noRecords}
	who := Identity{Name: "n9", ServerID: "n9~new", RaftAddress: "10.0.0.9:7080"}
	for name, says := range map[string]string{
		"n8": "belongs to node n8: give n9 an address of its own",
		"n9": "cannot check whether n9~old still runs: its address is not known: osqueue cluster add n9 HOST:PORT",
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

// noRecords are the effects of a cluster whose members were never changed by command.
var noRecords = Effects{Admitted: func(string) (Admission, bool) { return Admission{}, false }}

// A node that nobody has named, or that does not answer at its address, is told the command that is right.
func TestAdviceForANodeThatIsNotExpected(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	address := closed.Listener.Addr().String()
	peers := NewPeers("n1", []Peer{{Name: "n1", HTTP: "127.0.0.1:1"}, {Name: "n2", HTTP: address}}, http.DefaultClient)
	admitted := map[string]Admission{"n4": {Name: "n4", HTTP: address}}
	peers.Admitted(func(name string) string { return admitted[name].HTTP }, func() []Peer { return nil })
	leader := &Members{cfg: Config{ID: "n1~a"}, peers: peers, do: Effects{Admitted: func(name string) (Admission, bool) { a, ok := admitted[name]; return a, ok }}}
	for name, want := range map[string]string{
		"n2": "node n2 does not answer at " + address,
		"n4": "if it has another address, say so: osqueue cluster add n4 10.0.0.4:8080",
		"n5": "node n5 is neither a member nor admitted: check its --name, or admit it: osqueue cluster add n5 10.0.0.4:8080",
	} {
		err := leader.expected(t.Context(), servers("n1~a", "n2~b"), Identity{Name: name, ServerID: name + "~x", HTTPAddress: "10.0.0.4:8080"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
