package nemesis

import (
	"fmt"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// clockFaults make wall clocks wrong. Leases must neither run out nor stand still.
var clockFaults = []Fault{
	{Name: "clock-jump", Needs: NeedClock, Hold: 5 * time.Second, Begin: jump},
	{Name: "clock-drift", Needs: NeedClock, Hold: 5 * time.Second, Begin: drift},
	{Name: "clock-wrong-at-election", Needs: NeedClock, Hold: 3 * time.Second, Begin: wrongAtElection, Alone: true},
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
	if w.Rand.IntN(2) == 0 {
		offset = -offset
	}
	return w.setClock(s, w.Cluster.WaitLeader(), offset, 0)
}

func drift(w *World, s *history.FaultSpan) func() {
	rate := 0.5 // seconds a second
	if w.Rand.IntN(2) == 0 {
		rate = -rate
	}
	return w.setClock(s, w.Cluster.WaitLeader(), 0, rate)
}

// timeMax is how far the queue's time may be from the right one after an election,
// other clock faults of the round included: a leader's clock loses a tenth.
const timeMax = 10 * time.Minute

// wrongAtElection kills the leader while the clocks of all others are wrong by years,
// each by another number of them: the elected node must not move the queue's time.
func wrongAtElection(w *World, s *history.FaultSpan) func() {
	const year = 365 * 24 * time.Hour
	old := w.Cluster.WaitLeader()
	before, err := old.Status()
	if err != nil {
		s.Missed(err.Error())
		return func() {}
	}
	var wrong []*cluster.Node
	for i, n := range w.Cluster.Nodes {
		if n == old || !n.Running() {
			continue
		}
		wrong = append(wrong, n)
		if _, err := n.SetClock(time.Duration(i+1)*year, 0); err != nil {
			s.Missed(err.Error())
		}
	}
	pid := old.Pid()
	old.Kill()
	next := w.Cluster.WaitOtherLeader(old)
	w.goesOn(10) // the time moves with the entries
	now, err := next.Status()
	switch moved := time.Duration(now.Now-before.Now) * time.Millisecond; {
	case err != nil:
		s.Missed(err.Error())
	case moved > timeMax:
		w.T.Errorf("%s, whose clock is wrong, was elected and moved the queue's time by %v", next.Name, moved)
		fallthrough
	default:
		s.Hit(fmt.Sprintf("process %d of %s was killed; %s leads, whose clock is of %v", pid, old.Name, next.Name, time.UnixMilli(now.WallClock).UTC()))
	}
	return func() {
		for _, n := range wrong {
			if _, err := n.SetClock(0, 0); err != nil {
				w.T.Logf("%s has its right clock when it goes on: %v", n.Name, err)
			}
		}
		w.start(old)
	}
}
