package cluster

import (
	"fmt"
	"testing"
	"time"
)

// simTimeOff is the largest error of the cluster's time in these scenes.
const simTimeOff = 4 * time.Second

// simCalm is the time in which the users create their schedule, and it fires, before the
// time is changed. A schedule that is created late, for a time long past, fires once more
// for the last time that passed.
const simCalm = 10 * time.Second

// timeIs waits until a leader's time is the true time plus offset.
func (s *simRun) timeIs(offset time.Duration) {
	if err := simAwait(calmWait, func() string {
		lead := s.a.active()
		if lead == nil {
			return "nobody leads"
		}
		if off := time.Duration(lead.Now()-time.Now().Add(offset).UnixMilli()) * time.Millisecond; off.Abs() > simTimeOff {
			return fmt.Sprintf("the time of %s is %v off", lead.place.name, off)
		}
		return ""
	}); err != nil {
		s.failf("%v", err)
	}
}

// timeStays checks for a while that the leader's time is the true time.
func (s *simRun) timeStays() {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if lead := s.a.active(); lead != nil {
			off := time.Duration(lead.Now()-time.Now().UnixMilli()) * time.Millisecond
			if off.Abs() > simTimeOff {
				s.failf("%s moved the cluster's time by %v", lead.place.name, off)
				return
			}
		}
	}
}

// passLeadership transfers leadership to a follower.
func (s *simRun) passLeadership(to *simNode) {
	lead, next := s.a.active(), to.alive()
	if err := lead.raft.LeadershipTransferToServer(next.id, next.net.LocalAddr()).Error(); err != nil {
		s.failf("leadership was not passed: %v", err)
		return
	}
	s.await(calmWait, simWhile(to.name+" does not lead", func() bool { return s.a.active() != next }))
}

// The clock of one node is a year ahead, and that node is elected. The cluster's time
// does not follow it, not even by the tenth by which a leader's clock may be slewed.
func TestSimWrongClockAtElection(t *testing.T) {
	for _, n := range []int{3, 5} {
		simScene(t, n, func(s *simRun) {
			wrong := s.follower()
			wrong.clock.set(365*24*time.Hour, 0)
			s.passLeadership(wrong)
			s.timeStays()
			wrong.crash()
			s.timeStays()
			wrong.clock.set(0, 0)
		})
	}
}

// The leader dies when the clocks of all others jump by years. Readings from before the
// jump do not count as if they had been made with the new clocks.
func TestSimClocksJumpAtAnElection(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		time.Sleep(2 * clockInterval) // until each node has measured the others
		old := s.leader()
		for i, n := range s.a.nodes {
			if n != old {
				n.clock.set(time.Duration(i+1)*365*24*time.Hour, 0)
			}
		}
		old.crash()
		s.timeStays()
		for _, n := range s.a.nodes {
			n.clock.set(0, 0)
		}
		s.calm()
	})
}

// All nodes were down for hours. The time advances, because their clocks agree.
func TestSimTimeAfterADowntime(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		time.Sleep(simCalm)
		for _, n := range s.a.nodes {
			n.crash()
			n.clock.set(3*time.Hour, 0)
		}
		s.a.startAll()
		s.timeIs(3 * time.Hour)
		time.Sleep(simCalm)
	})
}

// After hours two nodes return whose clocks do not agree: the time does not jump. It
// advances as soon as they agree, and no worker loses its lease.
func TestSimTimeWaitsForAMajorityOfTheClocks(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		time.Sleep(simCalm)
		for _, n := range s.a.nodes {
			n.crash()
		}
		one, two := s.a.nodes[0], s.a.nodes[1]
		one.clock.set(3*time.Hour, 0)
		two.clock.set(5*time.Hour, 0)
		one.start()
		two.start()
		if !s.await(calmWait, s.a.led) {
			return
		}
		s.timeIs(0)
		two.clock.set(3*time.Hour, 0)
		s.timeIs(3 * time.Hour)
		s.a.nodes[2].clock.set(3*time.Hour, 0)
		time.Sleep(simCalm)
	})
}
