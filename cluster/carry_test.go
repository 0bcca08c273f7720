package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"osqueue/cluster/leader"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/document"
)

// keptJobs returns the ids of the jobs in all copies in the bucket.
func (l *lab) keptJobs() (ids []string) {
	l.t.Helper()
	for _, key := range l.keys("conflicts/") {
		obj, err := l.bucket.Get(l.t.Context(), key)
		if err != nil {
			l.t.Fatal(err)
		}
		doc, err := document.Decode(obj.Data)
		if err != nil {
			l.t.Fatalf("the copy %s: %v", key, err)
		}
		m, err := doc.Legacy()
		if err != nil {
			l.t.Fatalf("the copy %s: %v", key, err)
		}
		m.View().List(fsm.Index{}, []fsm.Status{fsm.Unclaimed, fsm.InProgress, fsm.Dead}, 0, func(j *fsm.Job) bool {
			ids = append(ids, j.ID)
			return true
		})
	}
	slices.Sort(ids)
	return ids
}

// keys returns the keys in the bucket that begin with prefix.
func (l *lab) keys(prefix string) (keys []string) {
	l.t.Helper()
	if err := l.bucket.List(l.t.Context(), prefix, func(i storage.Info) bool { keys = append(keys, i.Key); return true }); err != nil {
		l.t.Fatal(err)
	}
	return keys
}

// propose applies one mutation, which must be answered with OK.
func (l *lab) propose(m *member, op *fsmpb.Mutation) fsm.Result {
	l.t.Helper()
	r, _, err := m.Propose(l.t.Context(), op)
	if err != nil || r.Code != fsm.OK {
		l.t.Fatalf("propose: %v, %v", r.Code, err)
	}
	return r
}

// completed returns a mutation that completes a job without a worker.
func completed(id, result string) *fsmpb.Mutation {
	op := &fsmpb.ForceComplete{JobId: id, Result: []byte(result)}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: op}}
}

// split cuts cluster a off from the bucket and lets cluster b take the document over.
// heal reconnects a.
func (l *lab) split(flushed ...string) (a, b *member, heal func()) {
	l.t.Helper()
	return l.splitAfter(func(*member) {}, flushed...)
}

// release lets any cluster take the document over at once.
func (l *lab) release() {
	l.t.Helper()
	o, err := l.bucket.Get(l.t.Context(), DocumentKey)
	if err != nil {
		l.t.Fatal(err)
	}
	data, err := document.Release(o.Data)
	if err != nil {
		l.t.Fatal(err)
	}
	if w := l.bucket.PutIfMatch(l.t.Context(), DocumentKey, data, o.Version); w.Outcome != storage.Committed {
		l.t.Fatal(w.Err)
	}
}

// splitAfter is split for a state that prepare makes in a.
func (l *lab) splitAfter(prepare func(a *member), flushed ...string) (a, b *member, heal func()) {
	l.t.Helper()
	path := fault.New(l.bucket, 1)
	l.t.Cleanup(func() { _ = path.Close() })
	a = l.leader(l.start("a", 1, func(c *Config) { c.Bucket, c.StandbyRetry, c.MaxFlushLag = path, 200*time.Millisecond, 0 })...)
	prepare(a)
	lsn := l.enqueue(a, flushed...)
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	cut := path.Inject(fault.Rule{Kind: fault.LoseRequest})
	l.release()
	b = l.leader(l.start("b", 1, func(c *Config) { c.StandbyRetry = 200 * time.Millisecond })...)
	return a, b, cut.Stop
}

// idle waits until m has flushed everything.
func (l *lab) idle(m *member) {
	l.t.Helper()
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(m.View().LSN()) >= 0 })
}

// A cluster loses the document to another one while it cannot reach the bucket, and
// adopts the document later. It still has all the jobs that it has acknowledged.
func TestAnsweredJobsAreCarriedOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, heal := l.split("ran on both sides", "ends here", "cancelled here", "ends there", "gone there", "waits")

	for _, id := range []string{"ran on both sides", "ends here"} {
		l.propose(a, completed(id, `"of a"`))
	}
	l.propose(a, change(fsm.CancelJobs, "cancelled here"))
	var answered []string
	for i := range 26 {
		answered = append(answered, fmt.Sprintf("answered %d", i))
	}
	l.enqueue(a, answered...)
	l.enqueue(a, "done since")
	l.propose(a, completed("done since", `"of a"`))
	fails := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "dead since", Type: "fails"}}}
	l.propose(a, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: fails}})
	claimed := l.propose(a, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Types: []string{"fails"}, Max: 1}}}).Jobs[0]
	lease := &fsmpb.Lease{JobId: claimed.ID, Token: claimed.Execution().Token}
	l.propose(a, &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Worker: "w", Lease: lease, Permanent: true}}})

	if j := l.claim(b, "w"); j.ID != "ran on both sides" {
		t.Fatalf("claimed %s", j.ID)
	}
	l.propose(b, completed("ends there", `"of b"`))
	l.propose(b, change(fsm.CancelJobs, "gone there"))
	l.propose(b, change(fsm.DeleteJobs, "gone there"))
	l.enqueue(b, "of the other", "answered 3")
	l.idle(b)
	heal()
	l.eventually("the first to be fenced", func() bool { _, self := a.Leader(); return !self })
	b.stop()
	a = l.leader(a)

	want := map[string]fsm.Status{
		"ran on both sides": fsm.InProgress, "ends here": fsm.Completed, "cancelled here": fsm.Cancelled,
		"ends there": fsm.Completed, "waits": fsm.Unclaimed, "of the other": fsm.Unclaimed, "done since": fsm.Completed,
	}
	for _, id := range answered {
		want[id] = fsm.Unclaimed
	}
	for id, status := range want {
		if j := a.Job(id); j == nil || j.Status != status {
			t.Errorf("job %q is %+v, want it %s", id, j, status)
		}
	}
	for id, result := range map[string]string{"ends here": `"of a"`, "done since": `"of a"`, "ends there": `"of b"`} {
		if j := a.Job(id); j != nil && string(j.Execution().Result) != result {
			t.Errorf("job %q has the result %s, want %s", id, j.Execution().Result, result)
		}
	}
	for _, id := range []string{"gone there", "dead since"} {
		if j := a.Job(id); j != nil {
			t.Errorf("job %q is back: %+v", id, j)
		}
	}
	if kept := l.keptJobs(); !slices.Equal(kept, []string{"dead since", "ran on both sides"}) {
		t.Errorf("the copy has %q", kept)
	}
	got := a.Status().Carried
	if got.Copy == "" || got != (leader.Carried{Jobs: 26, Ended: 2, Kept: 2, Copy: got.Copy}) {
		t.Errorf("status: %+v", got)
	}
}

// The same, but the document's broker is alive and has continued. The next adoption takes
// over its later state, does not run again the jobs that have ended there since, and
// stores the others as a copy.
func TestAdoptionAgainOfALaterState(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, heal := l.split("flushed")
	l.enqueue(a, "answered")
	l.enqueue(b, "ends later")
	l.idle(b)
	heal()
	l.eventually("the first to be fenced", func() bool { _, self := a.Leader(); return !self })
	if err := a.leader.Adopt(t.Context(), a.raft.CurrentTerm(), election.Observed{Doc: l.document()}); err != nil {
		t.Fatal(err)
	}
	l.propose(b, change(fsm.CancelJobs, "ends later"))
	l.propose(b, change(fsm.DeleteJobs, "ends later"))
	l.enqueue(b, "newer")
	l.idle(b)
	b.stop()
	a = l.leader(a)
	for id, want := range map[string]bool{"flushed": true, "newer": true, "ends later": false} {
		if got := a.Job(id) != nil; got != want {
			t.Errorf("job %q is there: %v, want %v", id, got, want)
		}
	}
	if kept := l.keptJobs(); !slices.Contains(kept, "answered") {
		t.Errorf("the copy has %q", kept)
	}
}

// A document that does not say where it left this cluster's history, such as one that was
// edited by hand, is adopted, and a copy of all jobs that it lacks is stored.
func TestUnknownForkKeepsACopy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, heal := l.split("flushed", "gone there")
	l.enqueue(a, "answered")
	l.propose(b, change(fsm.CancelJobs, "gone there"))
	l.propose(b, change(fsm.DeleteJobs, "gone there"))
	l.idle(b)
	b.stop()
	without := regexp.MustCompile(`"handovers":\[[^]]*\],`).ReplaceAllString(l.stored(), "")
	if without == l.stored() {
		t.Fatal("there is no handover")
	}
	l.put(without)
	heal()
	l.eventually("the first to be fenced", func() bool { _, self := a.Leader(); return !self })
	a = l.leader(a)
	if a.Job("flushed") == nil || a.Job("answered") != nil || a.Job("gone there") != nil {
		t.Errorf("jobs: flushed %v, answered %v, gone there %v", a.Job("flushed"), a.Job("answered"), a.Job("gone there"))
	}
	if kept := l.keptJobs(); !slices.Equal(kept, []string{"answered", "gone there"}) {
		t.Errorf("the copy has %q", kept)
	}
}

func change(kind fsm.ChangeKind, ids ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(kind), Ids: ids}}}
}
