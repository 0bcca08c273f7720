package attack

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// ghost is a stranger's server that answers as any identity, and counts who connects to it.
type ghost struct {
	http  *httptest.Server
	raft  net.Listener
	calls atomic.Int64
	id    atomic.Pointer[string]
}

func newGhost(t *testing.T) *ghost {
	g := &ghost{}
	none := "{}"
	g.id.Store(&none)
	g.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.calls.Add(1)
		_, _ = w.Write([]byte(*g.id.Load()))
	}))
	var err error
	if g.raft, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := g.raft.Accept()
			if err != nil {
				return
			}
			g.calls.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		g.http.Close()
		_ = g.raft.Close()
		<-done
	})
	return g
}

// join sends a forged request to join to a node.
func join(t *testing.T, to *cluster.Node, identity map[string]any, head string) *answer {
	t.Helper()
	body, err := json.Marshal(identity)
	if err != nil {
		t.Fatal(err)
	}
	a, err := request(to.HTTP, fmt.Sprintf("POST /cluster/v1/join HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		to.HTTP, head, len(body), body), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A stranger's request to join removes no running node, makes the stranger no member, and
// makes the leader send nothing to an address of the request (S1).
func TestForgedJoins(t *testing.T) {
	t.Parallel()
	g := newTarget(t, 3)
	leader := g.WaitLeader()
	before := peersOf(g, leader)
	evil := newGhost(t)
	httpAt, raftAt := evil.http.Listener.Addr().String(), evil.raft.Addr().String()
	identity := func(name, httpAddress, raftAddress string) map[string]any {
		return map[string]any{
			"name": name, "serverId": name + "~evil0000", "raftAddress": raftAddress, "httpAddress": httpAddress,
			"applied": uint64(1) << 60, "knownLevel": 1000,
		}
	}
	victim := g.Follower()
	for name, who := range map[string]map[string]any{
		"in the name of a running follower":  identity(victim.Name, httpAt, raftAt),
		"in the name of the leader":          identity(leader.Name, httpAt, raftAt),
		"at the raft address of a node":      identity(victim.Name, httpAt, victim.Raft),
		"at both addresses of a node":        identity(victim.Name, victim.HTTP, victim.Raft),
		"of an unknown node":                 identity("n9", httpAt, raftAt),
		"with a path in the address":         identity(victim.Name, httpAt+"/v1/jobs/delete?", raftAt),
		"with a fragment in the address":     identity(victim.Name, httpAt+"/x#", raftAt),
		"with a user in the address":         identity(victim.Name, "127.0.0.1:80@"+httpAt, raftAt),
		"without a raft address":             identity(victim.Name, httpAt, ""),
		"with another server id":             {"name": victim.Name, "serverId": "n9~x", "raftAddress": raftAt, "httpAddress": httpAt, "knownLevel": 1000},
		"without a server id":                {"name": victim.Name, "raftAddress": raftAt, "httpAddress": httpAt},
		"with a name that is a path":         identity("../../etc", httpAt, raftAt),
		"with an empty identity":             {},
		"with a huge name":                   identity(strings.Repeat("n", 60_000), httpAt, raftAt),
		"of a running node with its own id":  {"name": victim.Name, "serverId": g.status(victim).ServerID, "raftAddress": raftAt, "httpAddress": httpAt, "knownLevel": 1000},
		"in the name of a node of level 0":   {"name": victim.Name, "serverId": victim.Name + "~evil", "raftAddress": raftAt, "httpAddress": httpAt},
		"with a server id of several tildes": {"name": victim.Name, "serverId": victim.Name + "~a~b", "raftAddress": raftAt, "httpAddress": httpAt, "knownLevel": 1000},
	} {
		g.attack(name, func(t *testing.T) {
			text, err := json.Marshal(who)
			if err != nil {
				t.Fatal(err)
			}
			said := string(text)
			evil.id.Store(&said)
			own := who["serverId"] == g.status(victim).ServerID // a member that asks again is answered 204, and nothing changes
			if a := join(t, leader, who, "Content-Type: application/json\r\n"); a.StatusCode/100 == 2 && !own {
				t.Errorf("answered %d %s", a.StatusCode, a.Body)
			}
			if now := peersOf(g, leader); now != before {
				t.Errorf("the members are %s, and were %s", now, before)
			}
			if n := evil.calls.Swap(0); n > 0 {
				t.Errorf("the leader connects %d times to an address of the request", n)
			}
		})
	}
	g.settled()
}

// peersOf describes the members of a cluster.
func peersOf(g *target, n *cluster.Node) string {
	var all []string
	for _, p := range g.status(n).Peers {
		all = append(all, fmt.Sprint(p.Name, p.ServerID, p.RaftAddress, p.Voter))
	}
	return strings.Join(all, " ")
}
