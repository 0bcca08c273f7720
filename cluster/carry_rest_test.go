package cluster

import (
	"crypto/sha256"
	"maps"
	"strings"
	"testing"

	"osqueue/cluster/leader"
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

// A cluster that takes the document back has the records of the other cluster. A copy has its own
// ones that differ, the keys of its requests, and the names of what it has deleted.
func TestRecordsGoToACopy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	token := func(id string) *fsmpb.Mutation {
		sum := sha256.Sum256([]byte(id))
		op := &fsmpb.CreateToken{Token: &fsmpb.Token{Id: id, Name: id, Hash: sum[:], Role: 1}}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: op}}
	}
	a, b, heal := l.splitAfter(func(a *member) {
		for _, name := range []string{"changed here", "changed there", "deleted here", "same"} {
			l.propose(a, schedule(name, "@daily"))
		}
		l.propose(a, token("revoked-here"))
		l.propose(a, token("kept"))
	}, "flushed")
	l.propose(a, schedule("new here", "@hourly"))
	l.propose(a, schedule("changed here", "@weekly"))
	l.propose(a, unschedule("deleted here"))
	l.propose(a, &fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: "revoked-here"}}})
	l.propose(a, pause("paused here"))
	l.proposed(a, keyed("answered", newJobs("carried over")))
	l.proposed(a, keyed("both", newJobs("first answer")))
	l.propose(b, schedule("changed there", "@monthly"))
	if r := l.proposed(b, keyed("both", newJobs("second answer"))); r.Code != fsm.OK {
		t.Fatalf("the other cluster: %v", r.Code)
	}
	a = l.takesBack(a, b, heal)

	want := map[string]string{"changed here": "@daily", "changed there": "@monthly", "deleted here": "@daily", "same": "@daily"}
	got := make(map[string]string)
	a.View().Crons("", func(c *fsm.Cron) bool { got[c.Name] = c.Spec; return true })
	if !maps.Equal(got, want) {
		t.Errorf("the schedules are %v", got)
	}
	if a.Job("carried over") == nil || a.Job("first answer") != nil || a.Job("second answer") == nil {
		t.Errorf("carried over %v, first answer %v, second answer %v", a.Job("carried over"), a.Job("first answer"), a.Job("second answer"))
	}
	c := a.Status().Carried
	if c.Copy == "" || c != (leader.Carried{Jobs: 1, Kept: 1, Records: 7, Copy: c.Copy}) {
		t.Errorf("status: %+v", c)
	}
	var records []byte
	for _, key := range l.keys("conflicts/") {
		if strings.Contains(key, "-records-") {
			obj, err := l.bucket.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			records = obj.Data
		}
	}
	for _, part := range []string{
		`"Name":"paused here","Paused":true`, `"Name":"new here","Spec":"@hourly"`, `"Name":"changed here","Spec":"@weekly"`,
		`"Name":"changed there","Spec":"@daily"`, `"key":"answered"`, `"deleted":["schedule deleted here","token revoked-here"]`,
	} {
		if !strings.Contains(string(records), part) {
			t.Errorf("the copy lacks %s: %s", part, records)
		}
	}
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
