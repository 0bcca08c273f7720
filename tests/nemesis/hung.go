package nemesis

import (
	"errors"
	"fmt"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/cluster/store"
	"osqueue/tests/history"
)

// hungFaults let disks and buckets hang, which do not fail.
var hungFaults = []Fault{
	{Name: "disk-hung", Elects: true, Needs: NeedClock, Takes: 1, Hold: 2 * time.Second, Begin: hangDisk},
	{Name: "bucket-hung", Needs: NeedProxy | NeedLinks, Begin: hangBucket, Alone: true},
	{Name: "bucket-disk-hung", Needs: NeedClock | NeedProxy, Begin: hangBoth, Alone: true},
}

// endTimeout bounds how long a node that must end takes on a busy machine, after the
// limit at which it notices.
const endTimeout = 15 * time.Second

// ends waits until a node has ended by itself.
func ends(n *cluster.Node, within time.Duration) error {
	return cluster.Poll(within, func() error {
		if n.Running() {
			return errors.New(n.Name + " runs")
		}
		return nil
	})
}

// stalled hangs a node's disk and demands that the process ends while it hangs. It
// returns what gives the disk back and starts the node.
func (w *World) stalled(s *history.FaultSpan, n *cluster.Node) (restart func()) {
	began := len(n.Log())
	if err := n.HangDisk(); err != nil {
		w.T.Fatal(err)
	}
	if err := ends(n, stallLimit+endTimeout); err != nil {
		w.T.Errorf("the disk of %s hangs, and it does not end:\n%s", n.Name, n.LogTail(5))
		n.Kill()
	} else if why := lastLineOf(n.Log()[began:], "the disk of the raft log has not answered"); why == "" {
		w.T.Errorf("%s does not say that its disk hangs:\n%s", n.Name, n.LogTail(5))
	} else {
		s.Hit(n.Name + " ended while its disk hung: " + why)
	}
	return func() {
		if err := n.UnhangDisk(); err != nil {
			w.T.Error(err)
		}
		w.start(n)
	}
}

// hangDisk hangs the disk of the leader or of a follower. The others go on meanwhile.
func hangDisk(w *World, s *history.FaultSpan) func() {
	n := w.Cluster.WaitLeader()
	if w.Rand.IntN(3) == 0 {
		n = w.follower()
	}
	restart := w.stalled(s, n)
	w.Cluster.WaitLeader()
	w.goesOn(20)
	return restart
}

// hangBucket hangs the bucket, and then isolates or stops the leader. Neither the loss
// of leadership nor the end of the process waits for the bucket.
func hangBucket(w *World, s *history.FaultSpan) func() {
	leader, before := w.Cluster.WaitLeader(), w.Proxy.Hits()[store.Hanging]
	w.Proxy.SetAway(store.Hangs)
	w.Cluster.Eventually(cluster.LeaderTimeout, "a request that hangs", func() error {
		if w.Proxy.Hits()[store.Hanging] == before {
			return errors.New("there is none")
		}
		return nil
	})
	after := w.isolatedHanging
	if w.Rand.IntN(2) == 0 {
		after = w.stoppedHanging
	}
	heal := after(s, leader)
	return func() {
		s.Hit(fmt.Sprintf("%d requests hung", w.Proxy.Hits()[store.Hanging]-before))
		w.Proxy.Behave()
		heal()
	}
}

// isolatedHanging demands that an isolated leader stops to be one while its flush hangs.
func (w *World) isolatedHanging(s *history.FaultSpan, leader *cluster.Node) (heal func()) {
	heal = w.impose(s, cut, w.aroundNodes(leader)...)
	err := cluster.Poll(endTimeout, func() error {
		st, err := leader.OwnStatus()
		if err == nil && st.State == v1.StateLeader {
			err = errors.New(leader.Name + " says that it leads")
		}
		return err
	})
	if err != nil {
		w.T.Errorf("%s is isolated and the bucket hangs: %v", leader.Name, err)
	} else {
		s.Hit(leader.Name + " does not lead any more")
	}
	return heal
}

// aroundNodes are the links between one node and the others.
func (w *World) aroundNodes(n *cluster.Node) (links []link.Link) {
	for _, o := range w.Cluster.Nodes {
		if o != n {
			links = append(links, link.Both(n.Name, o.Name)...)
		}
	}
	return links
}

// stoppedHanging demands that SIGTERM ends the leader while the bucket hangs.
func (w *World) stoppedHanging(s *history.FaultSpan, leader *cluster.Node) (heal func()) {
	pid := leader.Pid()
	leader.Terminate()
	if err := ends(leader, 2*endTimeout); err != nil {
		w.T.Errorf("the bucket hangs, and %s does not end by SIGTERM:\n%s", leader.Name, leader.LogTail(5))
		leader.Kill()
	} else {
		s.Hit(fmt.Sprintf("process %d of %s ended by SIGTERM", pid, leader.Name))
	}
	return func() { w.start(leader) }
}

// hangBoth hangs the bucket and the leader's disk. The process ends in spite of both.
func hangBoth(w *World, s *history.FaultSpan) func() {
	leader, before := w.Cluster.WaitLeader(), w.Proxy.Hits()[store.Hanging]
	w.Proxy.SetAway(store.Hangs)
	restart := w.stalled(s, leader)
	return func() {
		s.Hit(fmt.Sprintf("%d requests of the bucket hung", w.Proxy.Hits()[store.Hanging]-before))
		w.Proxy.Behave()
		restart()
	}
}
