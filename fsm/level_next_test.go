//go:build nextlevel

package fsm_test

import (
	"fmt"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestLevelOnlyGrows: it is raised once, and comes back from a snapshot. The rule of the
// next level holds from the entry that raises it on.
func TestLevelOnlyGrows(t *testing.T) {
	m := fsm.New()
	claims := func() (n int) {
		m.View().Claims(func(*fsm.ClaimRecord) bool { n++; return true })
		return n
	}
	for i := range 20 {
		apply(t, m, 1, enqueue(fmt.Sprint("j", i)), claimAs("w", fmt.Sprint("r", i), 1))
	}
	if n := claims(); n != 20 {
		t.Fatalf("%d claims are remembered at level %d, want 20", n, m.Level())
	}
	if r := apply(t, m, 2, raiseLevel(fsm.MaxLevel), raiseLevel(fsm.MaxLevel)); r[0].Code != fsm.OK || r[1].Code != fsm.Duplicate {
		t.Fatalf("raising twice: %v and %v", r[0].Code, r[1].Code)
	}
	if m.Level() != fsm.MaxLevel || copyOf(t, m).Level() != fsm.MaxLevel {
		t.Fatalf("level %d, restored %d", m.Level(), copyOf(t, m).Level())
	}
	apply(t, m, 3, enqueue("k"), claimAs("w", "k", 1))
	if n := claims(); n != 20 {
		t.Errorf("%d claims are remembered at level %d, want 20", n, m.Level())
	}
	if got := decode(t, entry(t, &fsmpb.Batch{Mutations: []*fsmpb.Mutation{raiseLevel(fsm.MaxLevel)}})).Version; got != fsm.MaxLevel {
		t.Errorf("the entry that raises the level has version %d", got)
	}
}
