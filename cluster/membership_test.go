package cluster

import (
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/cluster/membership"
)

// newcomer starts a node with an empty directory at a new address. others is the --peers
// of the other nodes, which may lack its name.
func (l *lab) newcomer(name string, others []PeerAddr, log *notes) *member {
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
			l.t.Logf("log of the new %s:\n%s", name, log.all())
		}
	})
	return l.open(peers, i, listener, log.log)
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
	follower := others(all, leader)[0]
	for _, name := range []string{follower.Name(), leader.Name()} {
		var log notes
		second := l.newcomer(name, leader.cfg.Peers, &log)
		l.eventually("the refusal of a second "+name, func() bool {
			now := l.leader(all...).raft.GetConfiguration().Configuration()
			if !slices.Equal(serverIDs(now), before) {
				t.Fatalf("the servers are %v, and were %v", serverIDs(now), before)
			}
			return log.have("node " + name + " is running as " + string(serverOf(before, name)))
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
	var log notes
	l.newcomer("n9", leader.cfg.Peers, &log)
	l.eventually("the refusal", func() bool {
		if got := serverIDs(leader.raft.GetConfiguration().Configuration()); len(got) != 3 {
			t.Fatalf("the servers are %v", got)
		}
		return log.have("n9 is not in the leader's --peers")
	})
}

// A node that is gone is replaced at another address only after the operator has named that
// address in the leader's --peers: anybody could ask in its name.
func TestReplacementAtAnotherAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	lost := others(all, leader)[0]
	lost.stop()
	before := serverIDs(leader.raft.GetConfiguration().Configuration())
	var log notes
	l.newcomer(lost.Name(), leader.cfg.Peers, &log)
	l.eventually("the refusal", func() bool {
		if now := serverIDs(leader.raft.GetConfiguration().Configuration()); !slices.Equal(now, before) {
			t.Fatalf("the servers are %v, and were %v", now, before)
		}
		return log.have("node " + lost.Name() + " does not answer at")
	})
}

// A node that is started without --peers, although there are certificates of further nodes, is
// a cluster of its own. Its log says so.
func TestANodeThatBootstrapsAloneWarns(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"b": true, "a": false} {
		l := newLab(t)
		var log notes
		l.leader(l.start(name, 1, func(c *Config) {
			c.Known = []string{"a1", c.Name}
			log.log(c)
		})...)
		if got := log.have("a cluster of its own"); got != want {
			t.Errorf("%s1, where a1 and %s1 are known: warns %v, want %v", name, name, got, want)
		}
	}
}
