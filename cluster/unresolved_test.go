package cluster

import (
	"slices"
	"testing"
	"time"

	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// announcements returns the kinds of all announcements that a node knows of, sorted.
func announcements(n *member) (kinds []fsm.EventKind) {
	events, _ := n.Events().Since(notify.EventID{}, 10_000)
	for _, e := range events {
		if e.Kind >= fsm.BucketAway && e.Kind <= fsm.BucketHealed {
			kinds = append(kinds, e.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestANewLeaderAnnouncesTheEnd ends the terms of leaders that have announced conditions, and
// not yet their end, by a failover and by a restart. Terms without such announcements announce
// nothing.
func TestANewLeaderAnnouncesTheEnd(t *testing.T) {
	t.Parallel()
	inline := func(c *Config) { c.ArchiveCheck = 20 * time.Millisecond }
	large := func(c *Config) { c.ArchiveCheck, c.Flush.ViewMax = 20*time.Millisecond, 1 }
	t.Run("failover", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		all := l.start("n", 3, inline)
		old := l.announces(l.leader(all...))
		old.stop()
		l.announcesTheEnd(l.leader(others(all, old)...))
	})
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		n := l.announces(l.leader(l.start("n", 1, large)...))
		for range 2 { // the second term has nothing to announce
			n.stop()
			n = l.leader(l.again(n, n.cfg.DataDir, large))
			l.announcesTheEnd(n)
		}
	})
	t.Run("snapshot", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		n := l.announces(l.leader(l.start("n", 1, inline)...))
		if err := n.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		n.stop()
		n = l.leader(l.again(n, n.cfg.DataDir, inline)) // has the announcements from the snapshot only
		want := []fsm.EventKind{fsm.BucketBack, fsm.WritesAccepted, fsm.BucketHealed}
		l.eventually("the ends to be announced", func() bool { return slices.Equal(announcements(n), want) })
	})
}

// announces makes a leader announce three conditions.
func (l *lab) announces(n *member) *member {
	l.flushed(n, l.enqueue(n, "a"))
	if got := announcements(n); len(got) != 0 {
		l.t.Fatalf("the first leader announces %v", got)
	}
	l.announce(n, fsm.AnnounceBucketAway, fsm.AnnounceWritesRefused, fsm.AnnounceBucketDamaged)
	return n
}

func (l *lab) announce(n *member, kinds ...fsm.AnnounceKind) {
	for _, kind := range kinds {
		l.commit(n, &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: &fsmpb.Announce{Kind: uint32(kind)}}})
	}
}

// announcesTheEnd checks that the end of each condition of announces is announced once.
func (l *lab) announcesTheEnd(n *member) {
	want := []fsm.EventKind{fsm.BucketAway, fsm.BucketBack, fsm.WritesRefused, fsm.WritesAccepted, fsm.BucketDamaged, fsm.BucketHealed}
	l.eventually("the ends to be announced", func() bool { return slices.Equal(announcements(n), want) })
	l.never(time.Second, "another announcement", func() bool { return !slices.Equal(announcements(n), want) })
}
