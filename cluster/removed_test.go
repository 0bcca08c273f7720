package cluster

import (
	"errors"
	"testing"
	"time"

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

func TestARemovedNodeEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	l.enqueue(leader, "a")
	var others []*member
	for _, m := range all {
		if m != leader {
			others = append(others, m)
		}
	}
	absent, follower := others[0], others[1]
	l.eventually("a vote of all", func() bool {
		for _, m := range all {
			c := m.raft.GetConfiguration().Configuration()
			if len(c.Servers) != 3 || !membership.Voter(c, m.id) {
				return false
			}
		}
		return true
	})
	absent.stop()
	if err := leader.raft.RemoveServer(absent.id, 0, 10*time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	l.enqueue(leader, "b")
	back := l.again(absent, absent.cfg.DataDir, nil) // it has not learned of the removal
	endsAsRemoved(t, back)

	// The leader itself: raft stops without a message to the others.
	if err := leader.raft.RemoveServer(leader.id, 0, 10*time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	endsAsRemoved(t, leader)
	if next := l.leader(follower); next.Job("b") == nil {
		t.Error("the job is lost")
	}
}
