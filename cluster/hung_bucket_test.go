package cluster

import (
	"errors"
	"math/rand/v2"
	"testing"

	"osqueue/fsm"
	"osqueue/internal/storagetest/script"
)

// The bucket hangs and ignores contexts. Its leader ceases to be the active leader when
// raft's term ends, even if calls still hang. If raft elects it again, it is not active
// before it has acquired the document.
func TestALeaderOfATermThatIsOverAnswersNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	gates := make(map[string]*simGate)
	all := l.start("n", 3, func(c *Config) {
		g := newSimGate(c.Bucket, t.Context().Done(), rand.New(rand.NewPCG(1, 1)))
		gates[c.Name], c.Bucket = g, g
	})
	old := l.leader(all...)
	g := gates[old.cfg.Name]
	stop := g.hang()
	defer stop()
	hangs := func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.cut != nil && g.withheld > 0
	}
	l.enqueue(old, "a")
	l.eventually("the flush to hang", hangs)
	if err := old.raft.LeadershipTransfer().Error(); err != nil {
		t.Fatal(err)
	}
	answersNothing := func() {
		t.Helper()
		if _, self := old.Leader(); self {
			t.Error("it still says that it is the leader")
		}
		if s := old.Status(); s.State == "leader" {
			t.Error("its status still says so")
		}
		if _, _, err := old.Propose(t.Context(), script.Claim("w", 1)); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a claim gets %v", err)
		}
		if err := old.Linearize(t.Context()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a read gets %v", err)
		}
	}
	answersNothing()
	next := l.leader(others(all, old)...)
	l.enqueue(next, "b")
	answersNothing()
	if err := next.raft.LeadershipTransferToServer(old.id, old.net.LocalAddr()).Error(); err != nil {
		t.Fatal(err)
	}
	answersNothing()
	if !hangs() {
		t.Error("the bucket does not hang any more")
	}
	stop()
	l.eventually("an active leader", func() bool {
		for _, m := range all {
			if _, self := m.Leader(); self {
				j := m.Job("b")
				return j != nil && j.Status == fsm.Unclaimed
			}
		}
		return false
	})
}
