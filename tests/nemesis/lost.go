package nemesis

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// lostFaults put logs and disks back to what they were, or take logs away.
var lostFaults = []Fault{
	{Name: "log-lost", Begin: loseLog, Alone: true},
	{Name: "log-older", Begin: olderLog, Alone: true},
	{Name: "log-lost-another-lags", Begin: loseLogOfTwo, Alone: true},
	{Name: "disks-restored", Loses: true, Begin: restoreDisks, Alone: true},
	{Name: "disks-copied", Loses: true, Single: true, Needs: NeedProxy, Begin: copyDisks, Alone: true},
}

// singlePool are the faults that a single node is to survive.
var singlePool = []string{
	"disks-copied", "disks-restored", "all-killed", "edited-between-leaders", "object-removed", "object-damaged",
	"bucket-down", "bucket-hanging", "bucket-misbehaving", "bucket-losing-answers", "bucket-disk-hung", "lists-failing",
	"all-disks-lost", "clock-jump",
}

// witnessTime is longer than a node takes to note what its log has confirmed.
const witnessTime = 1500 * time.Millisecond

// withoutLog takes the raft log of a node that has ended, and keeps its identity.
func (w *World) withoutLog(s *history.FaultSpan, n *cluster.Node) {
	how, damage := "removed", n.RemoveLog
	if w.Rand.IntN(2) == 0 {
		how, damage = "emptied", n.EmptyLog
	}
	if err := damage(); err != nil {
		w.T.Fatal(err)
	}
	s.Hit(fmt.Sprintf("the raft log of %s was %s", n.Name, how))
}

// refusesLog demands that a node, which ended at ended, does not start with a log that has less
// than it has confirmed. A node notes within witnessTime what it has confirmed. A snapshot that is
// younger has all that the node has noted, so the node cannot know that its log has less.
func (w *World) refusesLog(s *history.FaultSpan, n *cluster.Node, ended time.Time) {
	began := len(n.Log())
	covered := snapshotSince(n, ended.Add(-witnessTime))
	n.Start()
	if err := ends(n, endTimeout); err != nil && covered {
		n.Kill()
		s.Missed(n.Name + " wrote a snapshot just before it ended")
	} else if err != nil {
		w.T.Errorf("%s runs without the log that it has voted with", n.Name)
		n.Kill()
	} else if why := lastLineOf(n.Log()[began:], "delete its data directory"); why == "" {
		w.T.Errorf("%s does not say what to do about its lost log:\n%s", n.Name, n.LogTail(5))
	} else {
		s.Hit(why)
	}
}

// snapshotSince reports whether a node that does not run has written a snapshot since then.
func snapshotSince(n *cluster.Node, then time.Time) bool {
	paths, err := n.Snapshots()
	return err == nil && slices.ContainsFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.ModTime().After(then)
	})
}

func loseLog(w *World, s *history.FaultSpan) func() {
	n := w.follower()
	n.Kill()
	ended := time.Now()
	w.withoutLog(s, n)
	w.refusesLog(s, n, ended)
	return func() { w.replace(n) }
}

// olderLog puts an older copy of the raft log back beside a newer identity.
func olderLog(w *World, s *history.FaultSpan) func() {
	n := w.follower()
	n.Kill()
	old := n.CopyDisk()
	w.start(n)
	w.goesOn(60)
	w.sleep(witnessTime)
	n.Kill()
	ended := time.Now()
	if err := n.RestoreLog(old); err != nil {
		w.T.Fatal(err)
	}
	s.Hit("the raft log of " + n.Name + " is an older copy")
	w.refusesLog(s, n, ended)
	return func() { w.replace(n) }
}

// loseLogOfTwo takes the log of one of the two nodes that have the newest jobs, while
// the third lags. The two that are left must not lead before the leader is back.
func loseLogOfTwo(w *World, s *history.FaultSpan) func() {
	if len(w.Cluster.Nodes) != 3 {
		s.Missed("it takes exactly 3 nodes")
		return func() {}
	}
	nodes := w.leaderFirst()
	leader, lost, lagging := nodes[0], nodes[1], nodes[2]
	lagging.Kill()
	w.goesOn(60)
	w.sleep(witnessTime)
	leader.Kill()
	lost.Kill()
	ended := time.Now()
	w.withoutLog(s, lost)
	lagging.Start()
	w.refusesLog(s, lost, ended)
	if st, err := lagging.Status(); err == nil && st.RaftState == "leader" {
		w.T.Errorf("%s leads, and lacks what %s and %s have acknowledged", lagging.Name, leader.Name, lost.Name)
	}
	return func() {
		w.start(leader)
		w.replace(lost)
	}
}

// restoreDisks puts all disks back to a state that is older than the document, as
// snapshots of virtual machines do. The nodes have to go on from the document.
func restoreDisks(w *World, s *history.FaultSpan) func() {
	s.Loses()
	w.Cluster.KillAll()
	var saved []cluster.DiskCopy
	for _, n := range w.Cluster.Nodes {
		saved = append(saved, n.CopyDisk())
	}
	w.start(w.Cluster.Nodes...)
	before := w.flushed(w.Cluster.WaitLeader())
	w.goesOn(100)
	w.flushedBeyond(before)
	w.Cluster.KillAll()
	for i, n := range w.Cluster.Nodes {
		n.RestoreDisk(saved[i])
	}
	return func() {
		w.start(w.Cluster.Nodes...)
		leader := w.Cluster.WaitLeader()
		if why := lastLine(leader, "adopting the document"); why != "" {
			s.Hit(why)
		} else {
			s.Missed(leader.Name + " leads without the document")
		}
	}
}

// flushed is up to which LSN a leader has written the document.
func (w *World) flushed(leader *cluster.Node) (lsn history.LSN) {
	w.Cluster.Eventually(cluster.LeaderTimeout, leader.Name+" to say what it has flushed", func() error {
		st, err := leader.Status()
		if err == nil {
			lsn, err = history.ParseLSN(st.FlushedLSN)
		}
		return err
	})
	return lsn
}

// flushedBeyond waits for a later document.
func (w *World) flushedBeyond(before history.LSN) {
	w.Cluster.Eventually(cluster.LeaderTimeout, "a flush", func() error {
		leader, err := w.Cluster.Leader()
		if err != nil {
			return err
		}
		if now := w.flushed(leader); now.Compare(before.LSN) <= 0 {
			return fmt.Errorf("flushed up to %s", now)
		}
		return nil
	})
}

// copyDisks starts a second node with a copy of the disk of the first one, which lives.
// One of the two stands by, and names the copy. The first leads when the copy is gone.
func copyDisks(w *World, s *history.FaultSpan) func() {
	s.Loses() // what the first has acknowledged last, if the copy takes over
	n := w.Cluster.Nodes[0]
	other := cluster.New(w.T, cluster.Options{Nodes: 1, Prefix: "n", Bucket: w.Store.URL(), Flags: slices.Concat(w.timing(), soonTaken)})
	c := other.Nodes[0]
	c.Raft = n.Raft // raft's configuration has that address
	n.Pause()
	copied := n.CopyDisk()
	n.Continue()
	c.RestoreDisk(copied)
	c.Start()
	w.Cluster.Eventually(cluster.LeaderTimeout, "one of the two to name the copy", func() error {
		for _, one := range []*cluster.Node{n, c} {
			st, err := one.Status()
			if err == nil && strings.Contains(st.Fence.Reason, "a copy of its disks") {
				s.Hit(fmt.Sprintf("%s at %s: %s", one.Name, one.HTTP, st.Fence.Reason))
				return nil
			}
		}
		return errors.New("neither of the two does")
	})
	for end := time.Now().Add(brokerTimeout + time.Second); time.Now().Before(end); w.sleep(50 * time.Millisecond) {
		first, errFirst := n.Status()
		second, errSecond := c.Status()
		if errFirst == nil && errSecond == nil && first.State == v1.StateLeader && second.State == v1.StateLeader &&
			first.Epoch == second.Epoch {
			w.T.Errorf("a node and the copy of its disk both lead in epoch %d", first.Epoch)
		}
	}
	return func() {
		c.Kill()
		w.Cluster.WaitLeader()
	}
}
