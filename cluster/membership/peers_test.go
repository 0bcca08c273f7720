package membership

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"osqueue/internal/web"
)

// A node asks the nodes of --peers, those at its contacts and those in the records, each once, and not itself. A
// contact may have any name, a named address only its own.
func TestWhomANodeAsks(t *testing.T) {
	t.Parallel()
	asked := map[string]*atomic.Int64{}
	node := func(name string) string {
		asked[name] = new(atomic.Int64)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked[name].Add(1)
			web.WriteJSON(w, http.StatusOK, Identity{Name: name, ServerID: name + "~1"})
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	n1, n2, n3, n4, n5 := node("n1"), node("n2"), node("n3"), node("n4"), node("n5")
	p := NewPeers("n1", []Peer{{"n1", n1}, {"n2", n2}, {"", n3}, {"n6", n5}}, http.DefaultClient)
	p.Admitted(func(string) string { return "" }, func() []Peer { return []Peer{{"n1", n1}, {"n2", n2}, {"n4", n4}} })
	peers, err := p.AskAll(t.Context())
	var names []string
	for _, who := range peers {
		names = append(names, who.Name)
	}
	if got := strings.Join(names, " "); got != "n2 n4 n3" {
		t.Errorf("%s answered", got)
	}
	if err == nil || !strings.Contains(err.Error(), `has the name "n5", not "n6"`) {
		t.Errorf("a node at the address of another: %v", err)
	}
	for name, want := range map[string]int64{"n1": 0, "n2": 1, "n3": 1, "n4": 1, "n5": 1} {
		if got := asked[name].Load(); got != want {
			t.Errorf("%s is asked %d times, want %d", name, got, want)
		}
	}
	srv := NewPeers("n1", []Peer{{HTTP: "srv:_osqueue._tcp.nowhere.invalid"}}, http.DefaultClient)
	if _, err := srv.AskAll(t.Context()); err == nil || !strings.Contains(err.Error(), "nowhere.invalid") {
		t.Errorf("an SRV record that does not exist: %v", err)
	}
}
