package cluster

import (
	"fmt"
	"strings"
	"testing"

	"osqueue/cluster/leader"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func schedule(name, spec string) *fsmpb.Mutation {
	op := &fsmpb.PutCron{Name: name, Spec: spec, Job: &fsmpb.NewJob{Type: "scheduled"}, NextMs: noFire}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: op}}
}

// noFire is a time that no test reaches, ms.
const noFire = 4_000_000_000_000

func unschedule(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}}
}

func pause(typ string) *fsmpb.Mutation {
	paused := true
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: typ, Paused: &paused}}}
}

// keyed adds a request key to a mutation.
func keyed(key string, m *fsmpb.Mutation) *fsmpb.Mutation {
	m.Request = &fsmpb.Request{Key: key, Fingerprint: []byte(key)}
	return m
}

// proposed applies a mutation and returns the answer.
func (l *lab) proposed(m *member, op *fsmpb.Mutation) fsm.Result {
	l.t.Helper()
	r, _, err := m.Propose(l.t.Context(), op)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func newJobs(ids ...string) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	for _, id := range ids {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: id})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// specs returns the schedules of a node by name.
func specs(m *member) map[string]string {
	all := make(map[string]string)
	m.View().Crons("", func(c *fsm.Cron) bool { all[c.Name] = c.Spec; return true })
	return all
}

// splitWithRecords cuts a off with a state that has schedules, settings and a job, and changes
// them on both sides.
func (l *lab) splitWithRecords() (a, b *member, heal func()) {
	l.t.Helper()
	a, b, heal = l.splitAfter(func(a *member) {
		for _, name := range []string{"changed here", "changed there", "changed on both", "deleted here", "deleted there", "same"} {
			l.propose(a, schedule(name, "@daily"))
		}
		made, n := a.View().Meta().Now, 0
		l.eventually("the queue's time to pass", func() bool { // a schedule of that time may be a change since
			l.enqueue(a, fmt.Sprint("passes ", n))
			n++
			return a.View().Meta().Now > made
		})
	}, "flushed")
	l.propose(a, schedule("new here", "@hourly"))
	l.propose(a, schedule("changed here", "@weekly"))
	l.propose(a, schedule("changed on both", "@weekly"))
	l.propose(a, unschedule("deleted here"))
	l.propose(a, pause("paused here"))

	l.propose(b, schedule("changed there", "@monthly"))
	l.propose(b, schedule("changed on both", "@monthly"))
	l.propose(b, unschedule("deleted there"))
	return a, b, heal
}

// takesBack heals a, ends b, and lets a take the document back.
func (l *lab) takesBack(a, b *member, heal func()) *member {
	l.t.Helper()
	l.idle(b)
	heal()
	l.eventually("the first to be fenced", func() bool { _, self := a.Leader(); return !self })
	b.stop()
	return l.leader(a)
}

// A cluster that takes the document back has the changes of schedules that it acknowledged, and
// those of the other cluster. The copy has what both changed, and settings.
func TestSchedulesAreCarriedOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, heal := l.splitWithRecords()
	a = l.takesBack(a, b, heal)
	want := map[string]string{
		"new here": "@hourly", "changed here": "@weekly", "changed there": "@monthly", "changed on both": "@monthly", "same": "@daily",
	}
	got := specs(a)
	for name, spec := range want {
		if got[name] != spec {
			t.Errorf("schedule %q is %q, want %q", name, got[name], spec)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the schedules are %v", got)
	}
	c := a.Status().Carried
	if c != (leader.Carried{Schedules: 3, Records: 2, Copy: c.Copy}) {
		t.Errorf("status: %+v", c)
	}
	kept, err := l.bucket.Get(t.Context(), c.Copy)
	if err != nil || !strings.Contains(c.Copy, "-records-") {
		t.Fatalf("the copy %q: %v", c.Copy, err)
	}
	for _, part := range []string{`"type":"paused here","paused":true`, `"name":"changed on both","spec":"@weekly"`} {
		if !strings.Contains(string(kept.Data), part) {
			t.Errorf("the copy lacks %s: %s", part, kept.Data)
		}
	}
}

// A second adoption of the same document keeps what the first one has carried over.
func TestSchedulesAreCarriedOverAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, heal := l.splitWithRecords()
	l.proposed(a, keyed("k", newJobs("answered")))
	l.idle(b)
	heal()
	l.eventually("the first to be fenced", func() bool { _, self := a.Leader(); return !self })
	if err := a.leader.Adopt(t.Context(), a.raft.CurrentTerm(), election.Observed{Doc: l.document()}); err != nil {
		t.Fatal(err)
	}
	b.stop()
	a = l.leader(a)
	got := specs(a)
	if got["new here"] != "@hourly" || got["changed here"] != "@weekly" || got["deleted here"] != "" {
		t.Errorf("the schedules are %v", got)
	}
	if r := l.proposed(a, keyed("k", newJobs("another"))); r.Code != fsm.Duplicate {
		t.Errorf("the repeated request: %v", r.Code)
	}
}

// A request that was answered by the cluster that lost the document gets its first answer when
// it is repeated after the adoption. One that was repeated at the other cluster runs once.
func TestRequestKeysAreCarriedOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, heal := l.split("ends here", "fails here")
	l.proposed(a, keyed("enqueue", newJobs("answered", "answered, too")))
	l.proposed(a, keyed("end", completed("ends here", `"of a"`)))
	l.proposed(a, keyed("both", newJobs("first answer")))
	l.proposed(a, keyed("lost", &fsmpb.Mutation{Op: newJobs("dead").Op}))
	l.propose(a, change(fsm.CancelJobs, "dead"))
	l.propose(a, change(fsm.DeleteJobs, "dead"))
	if r := l.proposed(b, keyed("both", newJobs("second answer"))); r.Code != fsm.OK {
		t.Fatalf("the other cluster: %v", r.Code)
	}
	a = l.takesBack(a, b, heal)

	for key, want := range map[string]fsm.Code{
		"enqueue": fsm.Duplicate, "end": fsm.Duplicate, "both": fsm.Duplicate, "lost": fsm.Duplicate, "another": fsm.OK,
	} {
		if r := l.proposed(a, keyed(key, newJobs("repeated "+key))); r.Code != want {
			t.Errorf("the request %q repeated: %v, want %v", key, r.Code, want)
		}
	}
	if a.Job("first answer") != nil || a.Job("second answer") == nil {
		t.Errorf("one request enqueued: first %v, second %v", a.Job("first answer"), a.Job("second answer"))
	}
	c := a.Status().Carried
	if c != (leader.Carried{Jobs: 2, Ended: 1, Kept: 1, Requests: 3, Copy: c.Copy}) {
		t.Errorf("status: %+v", c)
	}
}
