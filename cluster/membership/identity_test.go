package membership

import (
	"testing"

	"osqueue/fsm"
)

// TestIdentityWithoutLevels checks the identity of a release that knows no levels.
func TestIdentityWithoutLevels(t *testing.T) {
	old := Identity{Name: "n1"}
	if old.highestLevel() != fsm.BaseLevel || old.knows(fsm.BaseLevel) != nil || old.knows(fsm.Level7) == nil {
		t.Fatalf("highest level %d, level 7: %v", old.highestLevel(), old.knows(fsm.Level7))
	}
	held := Identity{Name: "n2", KnownLevel: fsm.MaxLevel, HoldLevel: fsm.BaseLevel}
	if held.highestLevel() != fsm.BaseLevel || held.knows(fsm.Level7) != nil {
		t.Fatalf("held: highest level %d, level 7: %v", held.highestLevel(), held.knows(fsm.Level7))
	}
}
