package nemesis

import (
	"fmt"
	"os"
	"strings"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// processFaults end, stop and restart node processes.
var processFaults = []Fault{
	{Name: "leader-killed", Takes: 1, Hold: 2 * time.Second, Begin: killLeader},
	{Name: "follower-killed", Takes: 1, Hold: 2 * time.Second, Begin: killFollower},
	{Name: "majority-killed", Hold: 2 * time.Second, Begin: killMajority, Alone: true},
	{Name: "all-killed", Hold: 500 * time.Millisecond, Begin: killAll, Alone: true},
	{Name: "leader-paused", Takes: 1, Hold: 4 * time.Second, Begin: pauseLeader},
	{Name: "leader-paused-past-fence", Begin: pausePastFence, Alone: true},
	{Name: "follower-paused", Takes: 1, Hold: 4 * time.Second, Begin: pauseFollower},
	{Name: "restart-storm", Begin: storm, Alone: true},
	{Name: "graceful-roll", Begin: roll, Alone: true},
	{Name: "leadership-transfer", Elects: true, Takes: 1, Hold: time.Second, Begin: transfer},
}

// kill ends nodes with SIGKILL and says so, and returns what starts them again.
func (w *World) kill(s *history.FaultSpan, nodes ...*cluster.Node) (restart func()) {
	for _, n := range nodes {
		pid := n.Pid()
		n.Kill()
		if pid != 0 && !alive(pid) {
			s.Hit(fmt.Sprintf("%s: process %d ended by SIGKILL", n.Name, pid))
		}
	}
	return func() { w.start(nodes...) }
}

// start starts nodes that have ended, and waits until they serve.
func (w *World) start(nodes ...*cluster.Node) {
	for _, n := range nodes {
		if !n.Running() {
			n.Start()
		}
	}
	for _, n := range nodes {
		w.serves(n)
	}
}

// alive reports whether a process is there, and not only its exit status.
func alive(pid int) bool {
	state, err := processState(pid)
	return err == nil && state != "Z"
}

// processState is the letter that /proc has for a process.
func processState(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name, in parentheses, may have anything in it.
	rest := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(rest) == 0 {
		return "", fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	return rest[0], nil
}

func killLeader(w *World, s *history.FaultSpan) func() {
	return w.kill(s, w.Cluster.WaitLeader())
}

func killFollower(w *World, s *history.FaultSpan) func() { return w.kill(s, w.follower()) }

func killMajority(w *World, s *history.FaultSpan) func() {
	leader := w.Cluster.WaitLeader()
	nodes := []*cluster.Node{leader}
	for _, n := range w.Cluster.Nodes {
		if n != leader && len(nodes) <= len(w.Cluster.Nodes)/2 {
			nodes = append(nodes, n)
		}
	}
	return w.kill(s, nodes...)
}

func killAll(w *World, s *history.FaultSpan) func() {
	pids := make(map[int]string)
	for _, n := range w.Cluster.Nodes {
		pids[n.Pid()] = n.Name
	}
	w.Cluster.KillAll()
	for pid, name := range pids {
		if !alive(pid) {
			s.Hit(fmt.Sprintf("%s: process %d ended by SIGKILL", name, pid))
		}
	}
	return func() { w.start(w.Cluster.Nodes...) }
}

// pause stops a node and says so, and returns what wakes it.
func (w *World) pause(s *history.FaultSpan, n *cluster.Node) (wake func()) {
	pid := n.Pid()
	n.Pause()
	err := cluster.Poll(time.Second, func() error {
		state, err := processState(pid)
		if err == nil && state != "T" {
			err = fmt.Errorf("it is in state %s", state)
		}
		return err
	})
	if err != nil {
		s.Missed(err.Error())
	} else {
		s.Hit(fmt.Sprintf("%s: process %d in state T", n.Name, pid))
	}
	return func() {
		n.Continue()
		w.serves(n)
	}
}

func pauseLeader(w *World, s *history.FaultSpan) func() {
	return w.pause(s, w.Cluster.WaitLeader())
}

func pauseFollower(w *World, s *history.FaultSpan) func() { return w.pause(s, w.follower()) }

// pausePastFence wakes a leader when another one has written to the bucket.
func pausePastFence(w *World, s *history.FaultSpan) func() {
	old := w.Cluster.WaitLeader()
	before, err := old.Status()
	if err != nil {
		w.T.Fatal(err)
	}
	wake := w.pause(s, old)
	next := w.Cluster.WaitOtherLeader(old)
	w.Cluster.Eventually(cluster.LeaderTimeout, "the next leader to flush", func() error {
		st, err := next.Status()
		if err == nil && (st.Epoch <= before.Epoch || st.FlushedLSN == before.FlushedLSN) {
			err = fmt.Errorf("epoch %d, flushed up to %s", st.Epoch, st.FlushedLSN)
		}
		if err == nil {
			s.Hit(fmt.Sprintf("%s has flushed with epoch %d, after %d", next.Name, st.Epoch, before.Epoch))
		}
		return err
	})
	return wake
}

// storm kills nodes faster than the rest can elect.
func storm(w *World, s *history.FaultSpan) func() {
	for range 6 {
		n := w.Cluster.Nodes[w.Rand.IntN(len(w.Cluster.Nodes))]
		w.kill(s, n)
		w.sleep(300 * time.Millisecond)
		n.Start()
		w.sleep(500 * time.Millisecond)
	}
	return func() { w.start(w.Cluster.Nodes...) }
}

// stop ends a node gracefully.
func (w *World) stop(s *history.FaultSpan, n *cluster.Node) {
	w.serves(n)
	if err := n.Stop(); err != nil {
		w.T.Errorf("%s did not stop gracefully: %v", n.Name, err)
		return
	}
	s.Hit(n.Name + " ended with status 0")
}

func roll(w *World, s *history.FaultSpan) func() {
	for _, n := range w.Cluster.Nodes {
		w.stop(s, n)
		w.start(n)
		w.Cluster.WaitLeader()
	}
	return func() {}
}

func transfer(w *World, s *history.FaultSpan) func() {
	old := w.Cluster.WaitLeader()
	w.stop(s, old)
	next := w.Cluster.WaitOtherLeader(old)
	s.Hit(next.Name + " leads")
	return func() { w.start(old) }
}
