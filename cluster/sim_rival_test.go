package cluster

import (
	"testing"
	"time"

	"osqueue/internal/storagetest/fault"
)

// withRival has a second cluster of n nodes stand by on the bucket while act runs.
func (s *simRun) withRival(n int, act func(b *simCluster)) {
	s.allowAdoption(true)
	b := newSimCluster(s.simWorld, "b", n, s.faults)
	s.setRival(b)
	defer s.setRival(nil)
	defer b.end()
	b.startAll()
	act(b)
}

// An outage of the bucket ends for both clusters at the same time. The standby must not
// take over before the leader, which is alive, could renew its heartbeat.
func TestSimOutageDoesNotDepose(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		s.withRival(1, func(b *simCluster) {
			if s.neverActive(b, 12*time.Second) != "" {
				return
			}
			for range 3 {
				end := s.inject(fault.Rule{Kind: fault.LoseRequest})
				if s.neverActive(b, 13*time.Second) != "" {
					return
				}
				if end() == "" {
					s.failf("the outage has hit nothing")
				}
				if s.neverActive(b, 12*time.Second) != "" {
					return
				}
			}
			if s.a.active() == nil {
				s.failf("the first cluster does not lead")
			}
		})
	})
}

// A standby does not judge the leader's heartbeat by its own wall clock.
func TestSimClockOfAStandby(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		s.withRival(1, func(b *simCluster) {
			for _, offset := range []time.Duration{15 * time.Second, time.Hour, -time.Hour} {
				b.nodes[0].clock.set(offset, 0)
				if s.neverActive(b, 12*time.Second) != "" {
					return
				}
			}
		})
	})
}
