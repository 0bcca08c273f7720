package cluster

import (
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
)

func putCron(name, spec string, next int64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: name, Spec: spec, Missed: uint32(fsm.MissedOne), NextMs: next, Job: &fsmpb.NewJob{Type: name},
	}}}
}

// Whichever node leads, each second counts once: the schedule fired, or the second was
// counted as missed while no node led and one fire stood for it.
func TestScheduleFiresOnceOverChangesOfLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	first := nextTime("* * * * * *", leader.Now())
	put := putCron("c", "* * * * * *", first)
	if r, _, err := leader.Propose(t.Context(), put); err != nil || r.Code != fsm.OK {
		t.Fatal(r.Code, err)
	}
	fired := func(m *member) uint64 { return m.View().Cron("c").Fired }
	rest := all
	for round := range 3 {
		leader = l.leader(rest...)
		from := fired(leader)
		l.eventually("two fires", func() bool { return fired(leader) >= from+2 })
		switch round {
		case 0: // leadership is transferred
			_ = leader.raft.LeadershipTransfer().Error()
			l.eventually("the leader to have stepped down", func() bool { _, self := leader.Leader(); return !self })
		case 1: // the leader crashes
			leader.stop()
			rest = without(all, leader)
		}
	}
	eachSecondCounts(t, leader, first)
}

// eachSecondCounts requires that every second from first on has fired or was missed, and
// that there are as many jobs as fires.
func eachSecondCounts(t *testing.T, m *member, first int64) *fsm.Cron {
	t.Helper()
	v := m.View()
	c := v.Cron("c")
	if got, want := c.Fired+c.MissedCount, uint64((c.LastAt-first)/1000+1); got != want || c.Skipped != 0 {
		t.Fatalf("%d fired and %d missed, %d skipped in %d seconds", c.Fired, c.MissedCount, c.Skipped, want)
	}
	jobs := uint64(0)
	v.List(fsm.Index{Type: new("c")}, []fsm.Status{fsm.Unclaimed}, 0, func(*fsm.Job) bool {
		jobs++
		return true
	})
	if jobs != c.Fired {
		t.Fatalf("%d jobs of %d fires", jobs, c.Fired)
	}
	return c
}

// The times that passed while no node ran are counted as missed, and one fire stands for
// them.
func TestScheduleAfterAStandstill(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	first := nextTime("* * * * * *", n.Now())
	if r, _, err := n.Propose(t.Context(), putCron("c", "* * * * * *", first)); err != nil || r.Code != fsm.OK {
		t.Fatal(r.Code, err)
	}
	l.eventually("a fire", func() bool { return n.View().Cron("c").Fired > 0 })
	n.stop()
	next := n.View().Cron("c").NextAt
	l.eventually("two times to pass", func() bool { return time.Now().UnixMilli() > next+1000 })
	n = l.leader(l.again(n, n.cfg.DataDir, nil))
	l.eventually("a fire", func() bool { return n.View().Cron("c").NextAt > next })
	if c := eachSecondCounts(t, n, first); c.MissedCount == 0 {
		t.Fatalf("%d fired, none was missed", c.Fired)
	}
}

func without(all []*member, gone *member) (rest []*member) {
	for _, m := range all {
		if m != gone {
			rest = append(rest, m)
		}
	}
	return rest
}

func TestIdleClusterProposesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	next := n.Now() + time.Hour.Milliseconds()
	if _, _, err := n.Propose(t.Context(), putCron("c", "@every 1h", next)); err != nil {
		t.Fatal(err)
	}
	before := n.Status().LSN
	l.never(600*time.Millisecond, "an entry for nothing", func() bool { return n.Status().LSN != before })
}

// nextTime returns the first time of a schedule after a time, both in ms.
func nextTime(spec string, after int64) int64 {
	s, err := crontab.Parse(spec, "UTC")
	if err != nil {
		panic(err)
	}
	return s.Next(after)
}
