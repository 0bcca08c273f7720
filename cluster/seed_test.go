package cluster

import (
	"testing"

	"osqueue/cluster/snapshot"
	"osqueue/fsm"
)

// The leader confirms only entries that it has committed, and no other node does.
func TestTheLeaderConfirmsAnEntry(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	lsn := l.enqueue(leader, "a")
	asking := others(all, leader)[0]
	ask := func(m *member, lsn fsm.LSN) (snapshot.Place, error) {
		return asking.peers.Confirm(t.Context(), m.cfg.HTTPAdvertise, lsn)
	}
	at, err := ask(leader, lsn)
	if err != nil || at.Term != leader.raft.CurrentTerm() || at.ConfigurationIndex > lsn.Index || len(at.Configuration.Servers) != 3 {
		t.Errorf("the leader does not confirm what it has applied: %+v, %v", at, err)
	}
	for _, m := range others(all, leader) {
		l.eventually("the follower to know what is committed", func() bool { return m.raft.CommitIndex() >= lsn.Index })
		if _, err := ask(m, lsn); err == nil {
			t.Error("a follower confirms: it may be one that was left behind with a history that is lost")
		}
	}
	for _, wrong := range []fsm.LSN{{Term: lsn.Term, Index: lsn.Index + 1000}, {Term: lsn.Term + 7, Index: lsn.Index}, {Index: lsn.Index}, {Term: lsn.Term, Index: 1}} {
		if _, err := ask(leader, wrong); err == nil {
			t.Errorf("the leader confirms %s, which its log does not have, or with other members", wrong)
		}
	}
}
