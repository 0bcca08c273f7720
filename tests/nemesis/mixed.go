package nemesis

import (
	"fmt"

	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// mixedFaults are the faults of a cluster whose nodes run two releases.
var mixedFaults = []Fault{
	{Name: "mixed-leaders", Needs: NeedMixed, Begin: mixedLeaders, Alone: true},
	{Name: "node-swapped", Needs: NeedMixed, Begin: swapRelease, Alone: true},
}

// mixedPool are the faults of a cluster whose nodes run two releases.
var mixedPool = []string{
	"mixed-leaders", "mixed-leaders", "node-swapped", "node-swapped", "leader-killed", "follower-killed", "all-killed",
	"leader-paused", "leader-isolated", "leadership-transfer", "graceful-roll", "bucket-down", "late-put", "node-wiped",
}

// setRelease has a node run this release, or the next one, from its next start on. The feature level is
// held, so that both can lead.
func (w *World) setRelease(n *cluster.Node, next bool) {
	n.Binary, n.Flags = "", append(w.own(), w.mountFlags(n)...)
	if next {
		n.Binary, n.Flags = w.next, append(n.Flags, "--feature-level", "1")
	}
}

func (w *World) releaseOf(n *cluster.Node) string {
	if n.Binary != "" {
		return "the next release"
	}
	return "this release"
}

// mixedLeaders lets each node lead in turn, in an order that the rng choose. The
// others, of whichever release, have to run on.
func mixedLeaders(w *World, s *history.FaultSpan) func() {
	order := w.Rand.Perm(len(w.Cluster.Nodes))
	for _, i := range order {
		n := w.Cluster.Nodes[i]
		if !w.lead(n) {
			s.Missed(n.Name + " was not elected")
			continue
		}
		w.goesOn(30)
		for _, o := range w.Cluster.Nodes {
			if !o.Running() {
				w.T.Errorf("%s of %s ended while %s of %s led:\n%s", o.Name, w.releaseOf(o), n.Name, w.releaseOf(n), o.LogTail(5))
			}
		}
		s.Hit(fmt.Sprintf("%s of %s led in term %d", n.Name, w.releaseOf(n), w.term(n.Name, n.Status)))
	}
	return func() {}
}

// leadTries bounds how often the leader is stopped until the wanted one is elected.
const leadTries = 12

// lead stops leaders until n leads.
func (w *World) lead(n *cluster.Node) bool {
	for range leadTries {
		leader := w.Cluster.WaitLeader()
		if leader == n {
			return true
		}
		if err := leader.Stop(); err != nil {
			w.T.Errorf("%s did not stop gracefully: %v", leader.Name, err)
		}
		w.start(leader)
	}
	return false
}

// swapRelease upgrades a node, or takes it back.
func swapRelease(w *World, s *history.FaultSpan) func() {
	n := w.Cluster.Nodes[w.Rand.IntN(len(w.Cluster.Nodes))]
	before := w.releaseOf(n)
	w.stop(s, n)
	w.setRelease(n, n.Binary == "")
	return func() {
		w.start(n)
		s.Hit(fmt.Sprintf("%s ran %s and runs %s", n.Name, before, w.releaseOf(n)))
	}
}
