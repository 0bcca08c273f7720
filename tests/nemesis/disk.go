package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// diskFaults befall what nodes keep.
var diskFaults = []Fault{
	{Name: "disk-full", Needs: NeedDisk, Begin: fillDisk, Alone: true},
	{Name: "log-flipped", Begin: flipLog, Alone: true},
	{Name: "log-torn", Begin: tearLog, Alone: true},
	{Name: "snapshot-flipped", Begin: flipSnapshot, Alone: true},
	{Name: "node-wiped", Hold: time.Second, Begin: wipe, Alone: true},
	{Name: "node-wiped-leader-killed", Begin: wipeAndKill, Alone: true},
	{Name: "all-disks-lost", Loses: true, Begin: loseDisks, Alone: true},
}

// diskBytes is the size of a small disk: enough for the log of a round.
const diskBytes = 64 << 20

// smallDisks gives each node a file system of its own, if that is allowed.
func (w *World) smallDisks() {
	for _, n := range w.Cluster.Nodes {
		var not *cluster.NotPossibleError
		err := n.MountDisk(diskBytes)
		if errors.As(err, &not) {
			w.T.Logf("no small disks: %v", err)
			return
		}
		if err != nil {
			w.T.Fatal(err)
		}
	}
	w.has |= NeedDisk
}

// fillDisk leaves a node no room for its log. It must stop and say why, and come back
// when there is room.
func fillDisk(w *World, s *history.FaultSpan) func() {
	n := w.Cluster.WaitLeader()
	if w.Rand.IntN(2) == 0 {
		n = w.follower()
	}
	space, err := n.FillDisk(0)
	if err != nil {
		s.Missed(err.Error())
		return func() { _ = n.FreeDisk() }
	}
	left := logRoom
	err = cluster.Poll(time.Minute, func() error {
		if !n.Running() {
			return nil
		}
		// What the node deletes, such as an old snapshot, gives it no room.
		if now, err := n.FillDisk(0); err == nil {
			space = now
		}
		left -= w.fillLog(left)
		return fmt.Errorf("%s runs with %d bytes free", n.Name, space.Free)
	})
	if err != nil && w.appends(n) {
		s.Missed(n.Name + " still has room in its file")
	} else if err != nil {
		w.T.Errorf("a node without room for its log must stop: %v", err)
	} else if why := lastLine(n, "no space left on device"); why == "" {
		w.T.Errorf("%s does not say why it has stopped:\n%s", n.Name, n.LogTail(5))
	} else {
		s.Hit(fmt.Sprintf("%s stopped with %d bytes free: %s", n.Name, space.Free, why))
	}
	return func() {
		if err := n.FreeDisk(); err != nil {
			w.T.Error(err)
		}
		w.start(n)
	}
}

const (
	// logRoom is more than a raft log has room for in files that it made before the disk was full.
	logRoom = 4 << 20
	// ballastBytes is about the size of one entry of fillLog.
	ballastBytes = 64 << 10
)

// fillLog adds an entry without effect on any job to the raft log, unless left is 0, and returns
// its size in bytes. The load alone can take minutes to use up the room in a log on a busy machine.
func (w *World) fillLog(left int) int {
	if left < ballastBytes {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	types := make([]string, 256)
	for i := range types {
		types[i] = fmt.Sprintf("%0*d", ballastBytes/len(types), i)
	}
	// The version makes each registration a new one. An error only means one entry less.
	_ = w.Cluster.Client.RegisterWorker(ctx, client.WorkerInfo{Name: "ballast", Types: types, Version: fmt.Sprint(left)})
	return ballastBytes
}

// appends reports whether a node's log still grows: there may be free pages in it.
func (w *World) appends(n *cluster.Node) bool {
	before, errBefore := n.Status()
	w.goesOn(20)
	after, errAfter := n.Status()
	return errBefore == nil && errAfter == nil && after.CommitIndex > before.CommitIndex
}

// lastLine is the last line of a node's log that has a text in it.
func lastLine(n *cluster.Node, text string) string { return lastLineOf(n.Log(), text) }

func lastLineOf(log, text string) string {
	found := ""
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			found = strings.TrimSpace(line)
		}
	}
	return found
}

// flipLog turns over a bit of the newest entry of a stopped node, which must refuse to
// start.
func flipLog(w *World, s *history.FaultSpan) func() {
	n := w.follower()
	n.Kill()
	path, at, length, err := n.LastEntry()
	if err != nil {
		s.Missed(err.Error())
		return func() { w.start(n) }
	}
	d, err := n.FlipBit(path, at+length/2, uint(w.Rand.IntN(8)))
	if err != nil {
		s.Missed(err.Error())
		return func() { w.start(n) }
	}
	w.refuses(s, n, d)
	return func() { w.replace(n) }
}

// tearLog cuts the end of the log's file off, which may be unused space.
func tearLog(w *World, s *history.FaultSpan) func() {
	n := w.follower()
	n.Kill()
	path, at, length, err := n.LastEntry()
	if err != nil {
		s.Missed(err.Error())
		return func() { w.start(n) }
	}
	size := w.size(path)
	d, err := n.TearEnd(path, size-at-length/2)
	if err != nil {
		s.Missed(err.Error())
		return func() { w.start(n) }
	}
	w.refuses(s, n, d)
	return func() { w.replace(n) }
}

func (w *World) size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		w.T.Fatal(err)
	}
	return info.Size()
}

// refuses demands that a node with a damaged disk does not start, and says what to do.
func (w *World) refuses(s *history.FaultSpan, n *cluster.Node, d cluster.Damage) {
	s.Hit(d.String())
	n.Start()
	err := cluster.Poll(20*time.Second, func() error {
		if n.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	switch why := lastLine(n, "damaged"); {
	case err != nil:
		w.T.Errorf("%s runs on a damaged log: %s", n.Name, d)
		n.Kill()
	case why == "":
		w.T.Errorf("%s does not say that its log is damaged:\n%s", n.Name, n.LogTail(5))
	default:
		s.Hit(why)
	}
}

// replace brings a node back as the message says: without its data.
func (w *World) replace(n *cluster.Node) {
	n.Wipe()
	w.start(n)
}

// flipSnapshot damages a node's newest snapshot. The node has to come back with the
// right state, from wherever it gets it.
func flipSnapshot(w *World, s *history.FaultSpan) func() {
	n := w.follower()
	n.Kill()
	files, err := n.Snapshots()
	if err != nil || len(files) == 0 {
		s.Missed(fmt.Sprintf("there is no snapshot: %v", err))
		return func() { w.start(n) }
	}
	d, err := n.FlipBit(files[0], w.Rand.Int64N(w.size(files[0])), uint(w.Rand.IntN(8)))
	if err != nil {
		w.T.Fatal(err)
	}
	s.Hit(d.String())
	return func() { w.startOrReplace(s, n) }
}

// startOrReplace starts a node with a damaged snapshot. It may refuse, if there is
// nothing to put in its place, and says so; then it is brought back without its data.
func (w *World) startOrReplace(s *history.FaultSpan, n *cluster.Node) {
	n.Start()
	refused := false
	w.Cluster.Eventually(cluster.LeaderTimeout, n.Name+" to serve or to refuse", func() error {
		refused = !n.Running()
		if refused {
			return nil
		}
		_, err := n.Status()
		return err
	})
	if !refused {
		return
	}
	why := lastLine(n, "damaged")
	if why == "" {
		w.T.Errorf("%s has ended without saying that its snapshot is damaged:\n%s", n.Name, n.LogTail(5))
	}
	s.Hit(why)
	w.replace(n)
}

// serverID returns the server id of a node, which belongs to its disk.
func (w *World) serverID(n *cluster.Node) (id string) {
	w.Cluster.Eventually(cluster.LeaderTimeout, n.Name+" to say its id", func() error {
		st, err := n.Status()
		id = st.ServerID
		return err
	})
	return id
}

// wipe has a node come back with an empty disk: as a new member.
func wipe(w *World, s *history.FaultSpan) func() {
	n := w.follower()
	before := w.serverID(n)
	n.Kill()
	n.Wipe()
	return func() {
		w.start(n)
		w.joined(s, n, before)
	}
}

// joined waits until a node is a voter under a new id, and its old one is gone.
func (w *World) joined(s *history.FaultSpan, n *cluster.Node, before string) {
	after := w.serverID(n)
	w.Cluster.Eventually(2*cluster.LeaderTimeout, n.Name+" to be a member again", func() error {
		st, err := w.Cluster.WaitLeader().Status()
		if err != nil {
			return err
		}
		voter, old := false, false
		for _, p := range st.Peers {
			voter = voter || p.ServerID == after && p.Voter
			old = old || p.ServerID == before
		}
		if !voter || old {
			return fmt.Errorf("%s votes: %v, %s is still there: %v", after, voter, before, old)
		}
		return nil
	})
	if after != before {
		s.Hit(fmt.Sprintf("%s was %s and is %s", n.Name, before, after))
	}
}

// wipeAndKill changes the membership while the leader dies.
func wipeAndKill(w *World, s *history.FaultSpan) func() {
	n := w.follower()
	before := w.serverID(n)
	n.Kill()
	n.Wipe()
	n.Start()
	w.sleep(time.Duration(w.Rand.Int64N(int64(time.Second))))
	restart := w.kill(s, w.Cluster.WaitLeader())
	w.sleep(time.Second)
	return func() {
		restart()
		w.serves(n)
		w.joined(s, n, before)
	}
}

// loseDisks leaves nothing but the bucket.
func loseDisks(w *World, s *history.FaultSpan) func() {
	s.Loses()
	var before []string
	for _, n := range w.Cluster.Nodes {
		before = append(before, w.serverID(n))
	}
	w.Cluster.KillAll()
	for _, n := range w.Cluster.Nodes {
		n.Wipe()
	}
	return func() {
		if w.Proxy != nil {
			w.Proxy.Behave() // new nodes do not start with a bucket that they cannot prove
		}
		w.start(w.Cluster.Nodes...)
		for i, n := range w.Cluster.Nodes {
			if after := w.serverID(n); after != before[i] {
				s.Hit(fmt.Sprintf("%s was %s and is %s", n.Name, before[i], after))
			}
		}
	}
}
