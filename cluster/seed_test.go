package cluster

import (
	"testing"
	"time"

	"osqueue/cluster/membership"

	"github.com/hashicorp/raft"
)

// A new node starts from the snapshot in the bucket; the leader sends the log behind it.
func TestNewNodeStartsFromTheBucket(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	at := time.Now()
	all := l.start("n", 3, func(c *Config) { c.UploadInterval = time.Millisecond })
	leader := l.leader(all...)
	l.enqueue(leader, "a", "b")
	if err := leader.await(t.Context(), leader.raft.Snapshot()); err != nil {
		t.Fatal(err)
	}
	var uploaded uint64
	l.eventually("the snapshot to be in the bucket", func() bool {
		uploaded = leader.Status().Snapshots.Bucket.Index
		return uploaded > 0
	})
	if s := leader.Status().Snapshots; s.Local.Index != uploaded || s.Failing != "" || s.Bucket.At.Before(at) {
		t.Fatalf("snapshots: %+v", s)
	}
	lost := other(all, leader)
	lost.stop()
	back := l.again(lost, t.TempDir(), nil)
	if got := back.Status().Snapshots.Local.Index; got != uploaded {
		t.Fatalf("the new node starts from a snapshot of index %d, want %d from the bucket", got, uploaded)
	}
	lsn := l.enqueue(leader, "c")
	if err := back.WaitApplied(t.Context(), lsn); err != nil {
		t.Fatal(err)
	}
	l.eventually("its vote", func() bool {
		return membership.Voter(leader.raft.GetConfiguration().Configuration(), back.id)
	})
	if back.View().Hash() != leader.View().Hash() {
		t.Fatal("the new node has another state than the leader")
	}
}

// Without a snapshot in the bucket a new node gets everything from the leader. The leader
// vouches only for entries that it has.
func TestNewNodeWithoutASnapshotInTheBucket(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	l.enqueue(leader, "a")
	lost := other(all, leader)
	lost.stop()
	back := l.again(lost, t.TempDir(), nil)
	if err := back.WaitApplied(t.Context(), l.enqueue(leader, "b")); err != nil {
		t.Fatal(err)
	}
	entry := raft.SnapshotMeta{Term: leader.raft.CurrentTerm(), Index: leader.raft.AppliedIndex()}
	if err := back.peers.Vouched(t.Context(), leader.cfg.HTTPAdvertise, entry); err != nil {
		t.Errorf("the leader does not vouch for what it has applied: %v", err)
	}
	for _, m := range all {
		if m == leader || m == lost {
			continue
		}
		old := entry
		old.Index = leader.View().LSN().Index
		l.eventually("the follower to know what is committed", func() bool { return m.raft.CommitIndex() >= old.Index })
		if err := back.peers.Vouched(t.Context(), m.cfg.HTTPAdvertise, old); err == nil {
			t.Error("a follower vouches: it may be one that was left behind with a history that is lost")
		}
	}
	entry.Index += 1000
	if err := back.peers.Vouched(t.Context(), leader.cfg.HTTPAdvertise, entry); err == nil {
		t.Error("the leader vouches for what its log never reached")
	}
	entry.Index, entry.Term = leader.raft.AppliedIndex(), entry.Term+7
	if err := back.peers.Vouched(t.Context(), leader.cfg.HTTPAdvertise, entry); err == nil {
		t.Error("the leader vouches for a term that its log does not have")
	}
}

func other(all []*member, than *member) *member {
	for _, m := range all {
		if m != than {
			return m
		}
	}
	return nil
}
