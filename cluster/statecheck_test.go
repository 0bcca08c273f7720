package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fatalOf waits for the error with which a node ends.
func (l *lab) fatalOf(m *member) error {
	l.t.Helper()
	select {
	case err := <-m.Fatal():
		return err
	case <-time.After(15 * time.Second):
		l.t.Fatalf("%s does not end", m.Name())
		return nil
	}
}

// TestAReplayToAnotherState: the node ends without a mark, because the release before
// may replay the log correctly.
func TestAReplayToAnotherState(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, func(c *Config) { c.StateCheck = 50 * time.Millisecond })...)
	l.enqueue(n, "a")
	l.eventually("a check", func() bool { return !n.Status().CheckedLSN.IsZero() })
	n.replayed = n.raft.LastIndex() + 1000
	n.replica.sums.mu.Lock()
	sum := n.replica.sums.own[0]
	sum.Sum[0]++
	n.replica.sums.own[0] = sum
	n.replica.sums.mu.Unlock()
	if err := l.fatalOf(n); !errors.Is(err, errForked) || !strings.Contains(err.Error(), "the release before") {
		t.Fatalf("it ends: %v", err)
	}
	if _, err := os.Stat(filepath.Join(n.cfg.DataDir, divergedFile)); err == nil {
		t.Error("the data directory is marked")
	}
}
