package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/cronid"
)

func putCron(name, spec string, next int64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: name, Spec: spec, Missed: uint32(fsm.MissedOne), NextMs: next, Job: &fsmpb.NewJob{Type: name},
	}}}
}

func TestFiresOfSchedules(t *testing.T) {
	b := newBench(t, 100)
	f := &fires{leaderTerm: &leaderTerm{leaderBase: b.node.leader.leaderBase, log: hclog.NewNullLogger()}}
	minute := b.now/60_000*60_000 + 60_000
	b.apply(putCron("minutely", "* * * * *", minute), putCron("odd", "not a spec", minute), putCron("later", "@daily", minute+1))
	if p, err := f.due(minute - 1); err != nil || len(p) != 0 {
		t.Fatalf("%v, %v before anything is due", p, err)
	}
	now := minute + 2*60_000 + 500
	p, err := f.due(now)
	if err != nil || len(p) != 2 {
		t.Fatalf("%v, %v", p, err)
	}
	b.now = now
	b.apply(p...)
	b.index++ // the same entry once more, as if its answer had been lost
	for i, m := range p {
		res := b.node.replica.machine.Apply(b.index, 1, &fsmpb.Batch{NowMs: now, Mutations: []*fsmpb.Mutation{m}})
		if res[0].Code != fsm.NotDue {
			t.Errorf("fire %d again: %s", i, res[0].Code)
		}
	}
	v := b.node.View()
	for name, want := range map[string]string{
		"minutely": "fired 1, missed 2, last 2, next 3",
	} {
		c := v.Cron(name)
		next := "never"
		if c.NextAt != 0 {
			next = fmt.Sprint((c.NextAt - minute) / 60_000)
		}
		got := fmt.Sprintf("fired %d, missed %d, last %d, next %s", c.Fired, c.MissedCount, (c.LastAt-minute)/60_000, next)
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if j := b.node.Job(c.LastJobID); j == nil || j.Options().Cron != name {
			t.Errorf("%s enqueued %+v", name, j)
		}
		if at, ok := cronid.Time(c.LastJobID); !ok || at != c.LastAt {
			t.Errorf("%s: the id %s has the time %d, %v, want %d", name, c.LastJobID, at, ok, c.LastAt)
		}
	}
	if p, err := f.due(now); err != nil || len(p) != 0 {
		t.Fatalf("%d are due still, %v", len(p), err)
	}
	if c := v.Cron("odd"); c.NextAt != minute || c.Fired != 0 {
		t.Errorf("the schedule that this version cannot read: next %d, fired %d; it should be left to another leader", c.NextAt, c.Fired)
	}
	if at, ok := b.node.replica.machine.NextDeadline(f.leaderTerm.unreadable); !ok || at <= now {
		t.Errorf("the leader wakes at %d for it, which is over", at)
	}
}

func TestOneEntryHasABoundedNumberOfFires(t *testing.T) {
	b := newBench(t, 100)
	f := &fires{leaderTerm: &leaderTerm{leaderBase: b.node.leader.leaderBase, log: hclog.NewNullLogger()}}
	var ms []*fsmpb.Mutation
	for i := range firesMax + 3 {
		ms = append(ms, putCron(fmt.Sprintf("c%03d", i), "@every 1h", b.now))
	}
	b.apply(ms...)
	for _, want := range []int{firesMax, 3, 0} {
		p, err := f.due(b.now)
		if err != nil || len(p) != want {
			t.Fatalf("%d fires, %v, want %d", len(p), err, want)
		}
		b.apply(p...)
	}
	if len(f.read) != 1 {
		t.Errorf("%d specs are kept of one", len(f.read))
	}
}

// Whichever node leads, each second counts once: the schedule fired, or the second was
// counted as missed while no node led and one fire stood for it.
func TestScheduleFiresOnceOverChangesOfLeader(t *testing.T) {
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	first, err := NextTime("* * * * * *", "", leader.Now())
	if err != nil {
		t.Fatal(err)
	}
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
	v.JobsOfType("c", fsm.Unclaimed, 0, func(*fsm.Job) bool {
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
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	first, err := NextTime("* * * * * *", "", n.Now())
	if err != nil {
		t.Fatal(err)
	}
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
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	next := n.Now() + time.Hour.Milliseconds()
	if _, _, err := n.Propose(t.Context(), putCron("c", "@every 1h", next)); err != nil {
		t.Fatal(err)
	}
	before := n.Status().LSN
	l.never(600*time.Millisecond, "an entry for nothing", func() bool { return n.Status().LSN != before })
}
