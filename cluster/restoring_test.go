package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A leader may be closed while raft gives all nodes a new state. Raft would panic if it
// was shut down before its own machine has that state.
func TestCloseWhileTheStateIsRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	v, term := n.replica.freeze(), n.raft.CurrentTerm()
	before, err := n.snapshots.List()
	if err != nil {
		t.Fatal(err)
	}
	n.replica.mu.Lock() // raft's restore waits for this lock
	restored, closed := make(chan error, 1), make(chan error, 1)
	go func() { restored <- n.restore(t.Context(), v, term) }()
	l.eventually("a restore that is under way", func() bool {
		now, err := n.snapshots.List()
		return err == nil && (len(now) > len(before) || len(now) > 0 && now[0].ID != before[0].ID)
	})
	go func() { closed <- n.Close() }()
	<-n.ctx.Done()
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end) && n.raft.State() != raft.Shutdown; {
		time.Sleep(time.Millisecond)
	}
	n.replica.mu.Unlock()
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	t.Logf("the restore: %v", <-restored)
}

// Raft takes up a restore late: the node has lost the leadership since, and has got it back in a later
// term. The state lacks what the other leader has answered, so it must not be restored.
func TestALateRestoreChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	n := l.leader(all...)
	v, term := n.replica.freeze(), n.raft.CurrentTerm()
	n.restoring.Lock()
	restored := make(chan error, 1)
	go func() { restored <- n.restore(t.Context(), v, term) }()
	time.Sleep(100 * time.Millisecond) // it waits for its turn, usually
	l.eventually("another term of this node", func() bool {
		if n.raft.State() == raft.Leader && n.raft.CurrentTerm() == term {
			_ = n.raft.LeadershipTransfer().Error()
			return false
		}
		if n.raft.State() != raft.Leader {
			for _, o := range all {
				if o != n && o.raft.State() == raft.Leader {
					_ = o.raft.LeadershipTransferToServer(n.id, n.net.LocalAddr()).Error()
				}
			}
			return false
		}
		return true
	})
	before := n.raft.AppliedIndex()
	n.restoring.Unlock()
	if err := <-restored; !errors.Is(err, ErrNotLeader) {
		t.Errorf("the restore of term %d in term %d: %v", term, n.raft.CurrentTerm(), err)
	}
	snapshots, err := n.snapshots.List()
	if err != nil || len(snapshots) > 0 && snapshots[0].Index > before {
		t.Errorf("there is a snapshot: %v, error %v", snapshots, err)
	}
}
