package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// simPath breaks a node's way to the bucket, and returns the function that repairs it, which
// returns the number of operations that were hit.
type simPath struct {
	name   string
	limit  time.Duration // until another node has taken a write to the bucket
	broken func(*simGate) (unblock func() int)
}

func simPaths() []simPath {
	return []simPath{
		{"refused", 5 * time.Second, (*simGate).refuse},
		{"hangs", 10 * time.Second, (*simGate).block},
		{"hangs for ever", 10 * time.Second, (*simGate).hang},
	}
}

// bucketPaths breaks the way to the bucket of the leader, or of all nodes but one. A node that
// reaches the bucket has to lead while it lasts.
func (s *simRun) bucketPaths() func() string {
	bad := []*simNode{s.leader()}
	if s.r.IntN(3) == 0 {
		bad = s.shuffled()[1:]
	}
	kind := simPaths()[s.r.IntN(3)]
	var ends []func() int
	for _, n := range bad {
		if n != nil && n.alive() != nil {
			ends = append(ends, kind.broken(n.alive().gate))
		}
	}
	return func() string {
		hit := 0
		for _, end := range ends {
			hit += end()
		}
		if hit == 0 {
			return ""
		}
		return fmt.Sprintf("%d operations of %d nodes hit, the bucket %s", hit, len(ends), kind.name)
	}
}

// flushes waits until a node that is not in bad is the active leader and has written an entry to
// the bucket.
func (s *simRun) flushes(limit time.Duration, bad ...*simNode) {
	began := time.Now()
	err := simAwait(limit, func() string {
		l := s.a.active()
		if l == nil {
			return "no active leader"
		}
		for _, n := range bad {
			if n == l.place {
				return n.name + " leads"
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, lsn, err := l.ProposeAll(ctx, nil)
		if err == nil {
			err = l.WaitFlushed(ctx, lsn)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	if took := time.Since(began); err != nil || took > limit {
		s.failf("no write reaches the bucket within %v: %v", limit, err)
	}
}

// The leader, and it alone, cannot use the bucket any more: another node leads, and its writes reach
// the bucket. So it does if the bad node wins the next election.
func TestSimLeaderWithoutBucket(t *testing.T) {
	for _, path := range simPaths() {
		t.Run(path.name, func(t *testing.T) {
			simScene(t, 3, func(s *simRun) {
				bad := s.leader()
				end := path.broken(bad.alive().gate)
				s.flushes(path.limit, bad)

				// The bad node wins an election.
				good := s.a.active()
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				if err := good.await(ctx, good.raft.LeadershipTransferToServer(bad.alive().id, bad.alive().net.LocalAddr())); err != nil {
					s.failf("the bad node was not elected: %v", err)
				}
				s.flushes(path.limit, bad)
				if end() == 0 {
					s.failf("the fault has hit nothing")
				}
			})
		})
	}
}

// Only one node reaches the bucket: it leads, also if the leader dies.
func TestSimOneNodeReachesTheBucket(t *testing.T) {
	for _, path := range simPaths() {
		t.Run(path.name, func(t *testing.T) {
			simScene(t, 3, func(s *simRun) {
				good := s.follower()
				bad := s.without(good)
				hit := 0
				var ends []func() int
				for _, n := range bad {
					ends = append(ends, path.broken(n.alive().gate))
				}
				s.flushes(path.limit, bad...)
				for _, end := range ends {
					hit += end()
				}
				if hit == 0 {
					s.failf("the fault has hit nothing")
				}
			})
		})
	}
}

// No node reaches the bucket: the leader keeps the leadership, and answers writes as before.
func TestSimBucketAwayForAllMovesNoLeadership(t *testing.T) {
	for _, path := range simPaths() {
		t.Run(path.name, func(t *testing.T) {
			simScene(t, 3, func(s *simRun) {
				l := s.a.active()
				term := l.raft.CurrentTerm()
				var ends []func() int
				for _, n := range s.a.nodes {
					ends = append(ends, path.broken(n.alive().gate))
				}
				time.Sleep(8 * time.Second) // the leader refuses writes after the broker timeout
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				if _, _, err := l.ProposeAll(ctx, nil); err != nil {
					s.failf("without the bucket, a write: %v", err)
				}
				time.Sleep(30 * time.Second)
				if now := l.raft.CurrentTerm(); now != term || s.a.active() != l {
					s.failf("term %d after %d: the leadership has moved", now, term)
				}
				for _, end := range ends {
					if end() == 0 {
						s.failf("the fault has hit nothing")
					}
				}
				s.flushes(5 * time.Second)
				if now := l.raft.CurrentTerm(); now != term {
					s.failf("after the outage: term %d after %d", now, term)
				}
			})
		})
	}
}

// All disks are lost. The node that adopts the document loses its leadership before another node has
// the state, so that only it can lead again: it does not wait for another broker timeout.
func TestSimAnAdoptionIsNotWaitedForTwice(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		time.Sleep(10 * time.Second) // the document has jobs
		s.allowAdoption(true)
		for _, n := range s.a.nodes {
			n.crash()
			n.wipe()
		}
		s.a.startAll()
		var first *simLife
		for first == nil {
			time.Sleep(time.Millisecond)
			for _, l := range s.a.lives() {
				if l.View().Meta().Adopted != "" {
					first = l
				}
			}
		}
		rest := s.without(first.place)
		mend := s.a.net.cut(true, between([]*simNode{first.place}, rest)...)
		rest[0].crash() // the other one is not elected: it lacks entries
		time.Sleep(DefaultConfig().BrokerTimeout)
		if s.a.active() != nil {
			s.failf("%s leads with the state that only %s has", s.a.active().place.name, first.place.name)
		}
		mend()
		limit := DefaultConfig().BrokerTimeout / 2
		if err := simAwait(limit, simWhile("no active leader", func() bool { return s.a.active() != first })); err != nil {
			s.failf("with the adopted state: %v", err)
		}
	})
}
