//go:build nextlevel

package cluster

import (
	"errors"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
)

// TestSimulationRaisesTheLevel simulates clusters with all faults, until one of them was upgraded.
func TestSimulationRaisesTheLevel(t *testing.T) {
	counts := storagetest.NewCounts()
	for seed := uint64(1); counts.Count("fault: rolling upgrade") == 0 && seed < 10 && !t.Failed(); seed++ {
		simulate(t, seed, counts)
	}
	if counts.Count("fault: rolling upgrade") == 0 {
		t.Error("no cluster was upgraded")
	}
}

// TestAnyNodeHoldsTheLevel: one node that holds the level back is enough, whichever node
// leads. When that node runs without the setting, the leader raises the level.
func TestAnyNodeHoldsTheLevel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.start("n", 3, func(c *Config) {
		if c.Name == "n2" {
			c.FeatureLevel = fsm.BaseLevel
		}
	})
	leader := l.leader(nodes...)
	level, err := leader.members.CommonLevel(t.Context())
	if err != nil || level != fsm.BaseLevel || leader.Status().Level != fsm.BaseLevel {
		t.Fatalf("common level %d (%v), level %d", level, err, leader.Status().Level)
	}
	raise := &fsmpb.Mutation{Op: &fsmpb.Mutation_RaiseLevel{RaiseLevel: &fsmpb.RaiseLevel{Level: fsm.MaxLevel}}}
	if _, _, err := leader.Propose(t.Context(), raise); !errors.Is(err, ErrLevel) {
		t.Fatalf("a mutation of a higher level: %v", err)
	}

	nodes[1].stop()
	if _, err := l.leader(nodes[0], nodes[2]).members.CommonLevel(t.Context()); err == nil {
		t.Fatal("a server that does not answer counts as one that allows every level")
	}
	nodes[1] = l.again(nodes[1], nodes[1].cfg.DataDir, nil)
	for _, n := range nodes {
		l.eventually("the highest level on "+n.Name(), func() bool { return n.Status().Level == fsm.MaxLevel })
	}
}
