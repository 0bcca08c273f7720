package cluster

import (
	"testing"

	"osqueue/fsm"
)

// TestNewClusterHasTheHighestLevel: a new cluster begins with all features, because the
// entry that registers its first broker raises the level.
func TestNewClusterHasTheHighestLevel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.start("n", 3, nil)
	if s := l.leader(nodes...).Status(); s.Level != fsm.MaxLevel {
		t.Fatalf("the level is %d", s.Level)
	}
}
