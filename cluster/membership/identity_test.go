package membership

import (
	"testing"

	"osqueue/fsm"
)

// TestLevelOfAnIdentity: a node knows the levels of its program, and may hold its cluster
// below them.
func TestLevelOfAnIdentity(t *testing.T) {
	const next = fsm.BaseLevel + 1
	old := Identity{Name: "n1", KnownLevel: fsm.BaseLevel}
	if old.highestLevel() != fsm.BaseLevel || old.knows(fsm.BaseLevel) != nil || old.knows(next) == nil {
		t.Fatalf("highest level %d, level %d: %v", old.highestLevel(), next, old.knows(next))
	}
	held := Identity{Name: "n2", KnownLevel: next, HoldLevel: fsm.BaseLevel}
	if held.highestLevel() != fsm.BaseLevel || held.knows(next) != nil {
		t.Fatalf("held: highest level %d, level %d: %v", held.highestLevel(), next, held.knows(next))
	}
}
