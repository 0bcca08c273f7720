package cluster

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/membership"
)

// endsAsRemoved requires that a node reports on Fatal that it was removed.
func endsAsRemoved(t *testing.T, m *member) {
	t.Helper()
	select {
	case err := <-m.Fatal():
		if !errors.Is(err, membership.ErrRemoved) {
			t.Errorf("it must stop for another reason: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a node that was removed goes on")
	}
}

// remove removes a server by the leader of the moment, which changes on a busy machine. It returns
// when a leader among members has a configuration without the server.
func (l *lab) remove(id raft.ServerID, members ...*member) {
	l.t.Helper()
	l.eventually("the removal of "+string(id), func() bool {
		for _, m := range members {
			if !membership.Voter(m.raft.GetConfiguration().Configuration(), id) && m.raft.VerifyLeader().Error() == nil {
				return true
			}
		}
		for _, m := range members {
			if m.raft.State() == raft.Leader && m.raft.RemoveServer(id, 0, 10*time.Second).Error() == nil {
				return true
			}
		}
		return false
	})
}

func TestARemovedNodeEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	l.enqueue(l.leader(all...), "a")
	l.eventually("a vote of all", func() bool {
		for _, m := range all {
			c := m.raft.GetConfiguration().Configuration()
			if len(c.Servers) != 3 || !membership.Voter(c, m.id) {
				return false
			}
		}
		return true
	})
	leader := l.leader(all...)
	rest := others(all, leader)
	absent, follower := rest[0], rest[1]
	absent.stop()
	l.remove(absent.id, leader, follower)
	l.enqueue(l.leader(leader, follower), "b")
	back := l.again(absent, absent.cfg.DataDir, nil) // it has not learned of the removal
	endsAsRemoved(t, back)

	// The leader itself: raft stops without a message to the others.
	if leader = l.leader(leader, follower); leader == rest[1] {
		follower = all[slices.IndexFunc(all, func(m *member) bool { return m != leader && m != absent })]
	}
	l.remove(leader.id, leader, follower)
	endsAsRemoved(t, leader)
	if next := l.leader(follower); next.Job("b") == nil {
		t.Error("the job is lost")
	}
}
