package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"osqueue/fsm"
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
	if err := simAwait(calmWait, func() string {
		if s.a.active() != next {
			return to.name + " does not lead"
		}
		return ""
	}); err != nil {
		s.failf("%v", err)
	}
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
		if err := simAwait(calmWait, func() string {
			if s.a.active() == nil {
				return "nobody leads"
			}
			return ""
		}); err != nil {
			s.failf("%v", err)
			return
		}
		s.timeIs(0)
		two.clock.set(3*time.Hour, 0)
		s.timeIs(3 * time.Hour)
		s.a.nodes[2].clock.set(3*time.Hour, 0)
		time.Sleep(simCalm)
	})
}

// ahead advances the queue's time by an hour with wrong clocks on all nodes, and then
// corrects the clocks.
func (s *simRun) ahead() {
	time.Sleep(simCalm)
	for _, n := range s.a.nodes {
		n.clock.set(time.Hour, 0)
	}
	s.leader().crash()
	if len(s.a.nodes) == 1 {
		s.a.startAll()
	}
	s.timeIs(time.Hour)
	for _, n := range s.a.nodes {
		n.clock.set(0, 0)
	}
	s.calm()
}

func (s *simRun) timesSetBack() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setBacks
}

// setClock asks the leader to set the time back, again and again until it is done.
func (s *simRun) setClock(req ClockRequest) (set ClockSet) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := simAwait(calmWait, func() string {
		lead := s.a.active()
		if lead == nil {
			return "nobody leads"
		}
		var err error
		if set, err = lead.SetClock(ctx, req); err != nil {
			return err.Error()
		}
		return ""
	}); err != nil {
		s.failf("the time is not set back: %v", err)
	}
	return set
}

// A wrong clock has advanced the queue's time. An operator sets it back on every node,
// and nothing is lost.
func TestSimSetBack(t *testing.T) {
	for _, n := range []int{1, 3} {
		simScene(t, n, func(s *simRun) {
			s.ahead()
			if set := s.setClock(ClockRequest{}); set.Before-set.Now < (50 * time.Minute).Milliseconds() {
				s.failf("set back from %d to %d", set.Before, set.Now)
				return
			}
			s.timeIs(0)
			s.timeStays()
		})
	}
}

// The leader dies while it sets the time back, and the operator repeats the request: the
// time is set back once, whichever of the leaders did it.
func TestSimSetBackOnceWhenTheLeaderDies(t *testing.T) {
	for _, after := range []time.Duration{0, 2 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond} {
		simScene(t, 3, func(s *simRun) {
			s.a.tune = func(c *Config) { c.Settings = fsm.DefaultSettings() } // which remember requests for a day
			for _, n := range s.a.nodes {
				n.crash()
			}
			s.a.startAll()
			s.ahead()
			req := ClockRequest{Key: "operator", To: time.Now().UnixMilli()}
			lead := s.a.active()
			if lead == nil {
				s.failf("nobody leads")
				return
			}
			ctx, cancel := context.WithCancel(context.Background())
			go func() { _, _ = lead.SetClock(ctx, req) }() // its answer is lost
			time.Sleep(after)
			lead.place.crash()
			cancel()
			s.setClock(req)
			s.timeIs(0)
			lead.place.start()
			time.Sleep(20 * time.Second)
			if set := s.setClock(req); !set.Repeated || set.By < uint64((50*time.Minute).Milliseconds()) {
				s.failf("the request is repeated: %+v", set)
			}
			s.timeStays()
			if n := s.timesSetBack(); n != 1 {
				s.failf("the time was set back %d times", n)
			}
		})
	}
}

// The clocks do not agree: an operator gives the time. It continues from there, and a time
// that no majority of the clocks has reached is refused.
func TestSimSetTime(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		s.ahead()
		for i, n := range s.a.nodes {
			n.clock.set(time.Duration(i)*time.Minute, 0)
		}
		lead := s.a.active()
		if lead == nil {
			s.failf("nobody leads")
			return
		}
		for want, req := range map[string]ClockRequest{
			"do not agree": {},
			"has reached":  {To: time.Now().Add(90 * time.Second).UnixMilli()},
		} {
			if _, err := lead.SetClock(context.Background(), req); err == nil || !strings.Contains(err.Error(), want) {
				s.failf("%+v: %v, want %q", req, err, want)
			}
		}
		if set := s.setClock(ClockRequest{To: time.Now().UnixMilli()}); set.By < uint64((50 * time.Minute).Milliseconds()) {
			s.failf("set back by %d ms", set.By)
		}
		s.timeIs(0)
		for _, n := range s.a.nodes {
			n.clock.set(0, 0)
		}
		s.timeStays()
	})
}
