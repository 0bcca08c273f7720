package nemesis

import (
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// clockFaults make wall clocks wrong. Leases must neither run out nor stand still.
var clockFaults = []Fault{
	{Name: "clock-jump", Needs: NeedClock, Hold: 5 * time.Second, Begin: jump},
	{Name: "clock-drift", Needs: NeedClock, Hold: 5 * time.Second, Begin: drift},
}

// setClock makes a node's clock wrong, and returns what puts it right.
func (w *World) setClock(s *history.FaultSpan, n *cluster.Node, offset time.Duration, drift float64) (right func()) {
	proof, err := n.SetClock(offset, drift)
	switch {
	case err != nil:
		s.Missed(err.Error())
	case proof == "":
		s.Missed(n.Name + " does not run")
	default:
		s.Hit(proof)
	}
	return func() {
		if _, err := n.SetClock(0, 0); err != nil {
			w.T.Logf("%s has its right clock when it goes on: %v", n.Name, err)
		}
	}
}

func jump(w *World, s *history.FaultSpan) func() {
	offset := time.Hour
	if w.Dice.IntN(2) == 0 {
		offset = -offset
	}
	return w.setClock(s, w.Cluster.WaitLeader(), offset, 0)
}

func drift(w *World, s *history.FaultSpan) func() {
	rate := 0.5 // seconds a second
	if w.Dice.IntN(2) == 0 {
		rate = -rate
	}
	return w.setClock(s, w.Cluster.WaitLeader(), 0, rate)
}
