package cluster

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/membership"
	"osqueue/fsm"
)

// lines records the log lines of a node.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

// newcomer starts a node with an empty directory at a new address. others is the --peers
// of the other nodes, which may lack its name.
func (l *lab) newcomer(name string, others []PeerAddr, log *lines) *member {
	l.t.Helper()
	listener := l.listen()
	peers := slices.Clone(others)
	i := slices.IndexFunc(peers, func(p PeerAddr) bool { return p.Name == name })
	if i < 0 {
		i = len(peers)
		peers = append(peers, PeerAddr{Name: name})
	}
	peers[i].HTTP = listener.Addr().String()
	l.t.Cleanup(func() {
		if l.t.Failed() {
			log.mu.Lock()
			defer log.mu.Unlock()
			l.t.Logf("log of the new %s:\n%s", name, log.text.String())
		}
	})
	return l.open(peers, i, listener, func(c *Config) { c.Logger = logTo(name, log) })
}

func logTo(name string, log *lines) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Info, Output: log})
}

func serverIDs(c raft.Configuration) (ids []raft.ServerID) {
	for _, s := range c.Servers {
		ids = append(ids, s.ID)
	}
	return ids
}

// A second node with the name of a running node, for example with a copied configuration
// on another host, must not replace the running node, neither a follower nor the leader
// itself.
func TestSecondNodeOfALivingNameIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	before := serverIDs(leader.raft.GetConfiguration().Configuration())
	follower := all[slices.IndexFunc(all, func(m *member) bool { return m != leader })]
	for _, name := range []string{follower.Name(), leader.Name()} {
		var log lines
		second := l.newcomer(name, leader.cfg.Peers, &log)
		l.eventually("the refusal of a second "+name, func() bool {
			now := l.leader(all...).raft.GetConfiguration().Configuration()
			if !slices.Equal(serverIDs(now), before) {
				t.Fatalf("the servers are %v, and were %v", serverIDs(now), before)
			}
			return log.has("node " + name + " is running as " + string(serverOf(before, name)))
		})
		second.stop()
	}
}

func serverOf(ids []raft.ServerID, name string) raft.ServerID {
	return ids[slices.IndexFunc(ids, func(id raft.ServerID) bool { return membership.NodeName(id) == name })]
}

// A name that the leader's --peers lack is a mistake: the node would remain a voter.
func TestUnknownNameIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	var log lines
	l.newcomer("n9", leader.cfg.Peers, &log)
	l.eventually("the refusal", func() bool {
		if got := serverIDs(leader.raft.GetConfiguration().Configuration()); len(got) != 3 {
			t.Fatalf("the servers are %v", got)
		}
		return log.has("n9 is not in the leader's --peers")
	})
}

// A node that is gone is replaced at another address only after the operator has named that
// address in the leader's --peers: anybody could ask in its name.
func TestReplacementAtAnotherAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	lost := all[slices.IndexFunc(all, func(m *member) bool { return m != leader })]
	lost.stop()
	before := serverIDs(leader.raft.GetConfiguration().Configuration())
	var log lines
	l.newcomer(lost.Name(), leader.cfg.Peers, &log)
	l.eventually("the refusal", func() bool {
		if now := serverIDs(leader.raft.GetConfiguration().Configuration()); !slices.Equal(now, before) {
			t.Fatalf("the servers are %v, and were %v", now, before)
		}
		return log.has("node " + lost.Name() + " does not answer at")
	})
}

// A join request for an identity that does not answer removes no voter and adds none.
func TestJoinOfNobody(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	lost := all[slices.IndexFunc(all, func(m *member) bool { return m != leader })]
	lost.stop()
	l.eventually("silence of the node that was stopped", func() bool {
		return leader.out.Quiet(lost.id, leader.raft.CurrentTerm()) > max(10*leader.cfg.HeartbeatTimeout, 2*time.Second)
	})
	before := serverIDs(leader.raft.GetConfiguration().Configuration())
	body, err := json.Marshal(membership.Identity{
		Name: lost.Name(), ServerID: lost.Name() + "~made-up", RaftAddress: "127.0.0.1:1", HTTPAddress: "127.0.0.1:1", KnownLevel: fsm.MaxLevel,
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	leader.PeerHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, PeerPath+"join", bytes.NewReader(body)))
	if answer.Code != http.StatusConflict || !strings.Contains(answer.Body.String(), "does not answer at") {
		t.Errorf("refused with %d %s", answer.Code, answer.Body)
	}
	if got := serverIDs(leader.raft.GetConfiguration().Configuration()); !slices.Equal(got, before) {
		t.Errorf("the servers are %v, and were %v", got, before)
	}
}

// A node that is started without --peers, although there are certificates of further nodes, is
// a cluster of its own. Its log says so.
func TestANodeThatBootstrapsAloneWarns(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"b": true, "a": false} {
		l := newLab(t)
		var log lines
		l.leader(l.start(name, 1, func(c *Config) {
			c.Known = []string{"a1", c.Name}
			c.Logger = logTo(name, &log)
		})...)
		if got := log.has("a cluster of its own"); got != want {
			t.Errorf("%s1, where a1 and %s1 are known: warns %v, want %v", name, name, got, want)
		}
	}
}
