package cluster

import (
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
	before, err := n.stores.snapshots.List()
	if err != nil {
		t.Fatal(err)
	}
	n.replica.mu.Lock() // raft's restore waits for this lock
	restored, closed := make(chan error, 1), make(chan error, 1)
	go func() { restored <- n.restore(t.Context(), v, term) }()
	l.eventually("a restore that is under way", func() bool {
		now, err := n.stores.snapshots.List()
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
