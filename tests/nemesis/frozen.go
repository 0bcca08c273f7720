package nemesis

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// frozenFaults are the faults of a bucket that is a directory.
var frozenFaults = []Fault{
	{Name: "leader-frozen-in-write", Elects: true, Needs: NeedFile, Takes: 1, Hold: 4 * time.Second, Begin: freezeInWrite},
}

// freezeInWrite stops the leader in the middle of a write of the document, which must
// not keep the next leader from writing.
func freezeInWrite(w *World, s *history.FaultSpan) func() {
	old := w.Cluster.WaitLeader()
	wake := func() {
		old.Continue()
		w.serves(old)
	}
	staged := w.pauseInWrite(old)
	if staged == "" {
		s.Missed(notPossible + old.Name + " was not caught in the middle of a write")
		return wake
	}
	next := w.Cluster.WaitOtherLeader(old)
	w.goesOn(20)
	state, err := processState(old.Pid())
	if err != nil || state != "T" {
		s.Missed(fmt.Sprintf("%s is in state %s: %v", old.Name, state, err))
		return wake
	}
	s.Hit(fmt.Sprintf("%s: process %d in state T, with %s staged; %s leads", old.Name, old.Pid(), staged, next.Name))
	return wake
}

// pauseInWrite freezes a node when a write of queue.json is under way, and returns the
// file that was still staged then; it tries for five seconds. "" is none: the node is
// frozen even so.
func (w *World) pauseInWrite(n *cluster.Node) string {
	pattern := filepath.Join(strings.TrimPrefix(w.Cluster.Bucket(), "file://"), ".osqueue", "chain", ".queue.json", "d*")
	deadline := time.Now().Add(5 * time.Second)
	for {
		n.Pause()
		if staged, _ := filepath.Glob(pattern); len(staged) > 0 {
			return filepath.Base(staged[0])
		}
		if time.Now().After(deadline) {
			return ""
		}
		n.Continue()
		w.sleep(3 * time.Millisecond)
	}
}
