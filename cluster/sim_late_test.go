package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// The leader gives up on a snapshot for a follower that was away, and repeats it. The follower
// gets the state and confirms entries behind it. Then the first request arrives. The follower
// must keep what it has confirmed.
func TestSimLateSnapshotTakesNothingBack(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		f := s.follower()
		f.crash()
		for from := s.counts.count("entry applied"); s.counts.count("entry applied") < from+500; {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second) // the leader takes snapshots
		held := 0
		release := s.a.net.hold(func(l simLink, cmd any) bool {
			_, is := cmd.(*raft.InstallSnapshotRequest)
			if is = is && l.to == f.name && held == 0; is {
				held++
			}
			return is
		})
		if !s.calm() {
			return
		}
		time.Sleep(3 * time.Second)
		index, term := f.alive().disk.newest()
		if n := release(); n != 1 {
			s.failf("%d snapshots came late, want 1", n)
		}
		if !f.alive().disk.has(index, term) {
			s.failf("%s has lost entry %d of term %d, which it had confirmed", f.name, index, term)
			return
		}
		s.a.active().place.crash()
		s.calm()
	})
}
