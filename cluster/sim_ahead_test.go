package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// aheadFaults returns the faults that hit a leader while an entry is on the disk of a follower and
// not yet on its own.
func aheadFaults() []simFault {
	return []simFault{
		{name: "leader died ahead of its disk", times: 1, begin: func(s *simRun) func() string {
			return s.aheadOfDisk(func(n *simNode, _ *simDisk) { n.crash() })
		}},
		{name: "disk hung under a leader ahead of it", times: 1, begin: func(s *simRun) func() string {
			return s.aheadOfDisk(func(*simNode, *simDisk) {})
		}},
		{name: "disk failed under a leader ahead of it", times: 1, begin: func(s *simRun) func() string {
			return s.aheadOfDisk(func(_ *simNode, d *simDisk) {
				d.setFull(true)
				d.goOn()
			})
		}},
		{name: "leader cut off ahead of its disk", times: 1, begin: (*simRun).cutAheadOfDisk},
	}
}

// aheadWait bounds how long it takes until a follower has stored an entry of the leader's.
const aheadWait = 5 * time.Second

// getAhead hangs the leader's disk until a follower has an entry that the leader's disk lacks. It returns
// nil if the leader has changed before.
func (s *simRun) getAhead() (n *simNode, life *simLife, entry uint64) {
	if n = s.leader(); n == nil {
		return nil, nil, 0
	}
	if life = n.alive(); life == nil {
		return nil, nil, 0
	}
	n.mark(true)
	life.disk.hang()
	term := life.raft.CurrentTerm()
	err := simAwait(aheadWait, func() string {
		own, _ := life.disk.newest()
		for _, o := range s.a.lives() {
			if index, of := o.disk.newest(); index > own && of == term {
				entry = index
				return ""
			}
		}
		return "no follower is ahead of the leader's disk"
	})
	if err != nil || n.alive() != life {
		life.disk.goOn()
		n.mark(false)
		return nil, nil, 0
	}
	return n, life, entry
}

// aheadOfDisk applies a fault to a leader that is ahead of its disk. The node has to end. Its next
// process lacks the entry; the others commit it or replace it.
func (s *simRun) aheadOfDisk(hit func(*simNode, *simDisk)) func() string {
	n, life, entry := s.getAhead()
	if n == nil {
		return nil
	}
	hit(n, life.disk)
	err := simAwait(hungEnd, simWhile(n.name+" runs", func() bool { return n.alive() == life }))
	return func() string {
		if err != nil {
			s.failf("%s goes on though its disk does not: %v", n.name, err)
		}
		life.disk.goOn()
		n.mark(false)
		n.start()
		return fmt.Sprintf("%s ended when entry %d was on a follower's disk only", n.name, entry)
	}
}

// cutAheadOfDisk cuts a leader off that is ahead of its disk, until another one leads and has the
// entries or not. The old leader must not confirm them to the new one from its queue. Its disk
// answers before the watchdog ends the node.
func (s *simRun) cutAheadOfDisk() func() string {
	n, life, entry := s.getAhead()
	if n == nil {
		return nil
	}
	term := life.raft.CurrentTerm()
	mend := s.a.net.cut(s.r.IntN(2) == 0, between([]*simNode{n}, s.without(n))...)
	err := simAwait(3*time.Second, func() string {
		for _, l := range s.a.lives() {
			if l != life && l.raft.State() == raft.Leader && l.raft.CurrentTerm() > term {
				return ""
			}
		}
		return "no other node leads"
	})
	mend()
	time.Sleep(time.Second)
	ended := n.alive() != life
	life.disk.goOn()
	return func() string {
		n.mark(false)
		n.start()
		if ended || err != nil {
			return ""
		}
		return fmt.Sprintf("%s was replaced when entry %d was on a follower's disk only", n.name, entry)
	}
}

// A leader is ahead of its disk again and again. The checks of the simulation demand that it
// has applied nothing that its disk lacks, and that no node confirms such an entry.
func TestSimLeaderAheadOfItsDisk(t *testing.T) {
	for _, n := range []int{3, 5} {
		simScene(t, n, func(s *simRun) {
			for _, f := range aheadFaults() {
				if !s.aheadOnce(f) {
					s.failf("%s: never", f.name)
				}
			}
		})
	}
}

// aheadOnce tries a fault until it has had an effect.
func (s *simRun) aheadOnce(f simFault) bool {
	for range 3 * simTries {
		if !s.calm() {
			return false
		}
		end := f.begin(s)
		if end == nil {
			continue
		}
		time.Sleep(3 * time.Second)
		if end() != "" {
			return true
		}
	}
	return false
}
