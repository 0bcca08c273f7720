package fsm_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// A clock that was a year ahead is set back: leases last in full, what was set while it
// was wrong moves back with it, what was set before stays, and nothing lies ahead.
func TestSetBack(t *testing.T) {
	const (
		right = int64(1_800_000_000_000)
		ahead = int64(365 * 24 * 3600 * 1000)
		wrong = right + ahead
		day   = int64(24 * 3600 * 1000)
	)
	m := fsm.New()
	put := &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: "nightly", Spec: "0 3 * * *", Job: &fsmpb.NewJob{Type: "t"}, NextMs: right + day,
	}}}
	apply(t, m, right-1000, enqueueAt(right+400*day, "before"), put)
	apply(t, m, wrong-60_000, enqueue("held"), enqueue("done"), enqueue("failed"))
	claims := apply(t, m, wrong-60_000, claim("w", 3))
	held := claims[0].Jobs
	if len(held) != 3 {
		t.Fatalf("claimed %d jobs", len(held))
	}
	apply(t, m, wrong-50_000, complete("w", "done", held[1].Execution().Token), failAfter("w", "failed", held[2].Execution().Token, 100_000), enqueueAt(wrong+day, "delayed"))
	apply(t, m, wrong-40_000, heartbeat("w", "held", held[0].Execution().Token))
	frozen := m.View()
	before := frozen.Hash()

	now := right
	by := frozen.Meta().Now - now
	once := setClock(now, &fsmpb.NextTime{Spec: "0 3 * * *", NextMs: now + 7})
	once.Request = &fsmpb.Request{Key: "once", Fingerprint: []byte("f")}
	back := m
	if r := apply(t, back, now, once); r[0].Code != fsm.OK || r[0].Count != uint64(by) {
		t.Fatalf("set back by %d: %v", r[0].Count, r[0].Code)
	}
	if frozen.Hash() != before {
		t.Error("the view was changed")
	}
	if got := back.Meta(); got.Now != now || got.LeasesFrom != now {
		t.Errorf("now %d, leases from %d", got.Now, got.LeasesFrom)
	}
	if next := back.View().Cron("nightly").NextAt; next != now+7 {
		t.Errorf("the schedule is due %d ms from now", next-now)
	}
	for id, want := range map[string]int64{
		"before": right + 400*day, "delayed": wrong + day - by, "failed": wrong + 50_000 - by,
	} {
		if got := back.Job(id); got.Status != fsm.Scheduled || got.RunAt != want {
			t.Errorf("%s is %s for %d, want %d", id, got.Status, got.RunAt-now, want-now)
		}
	}
	if got := back.Job("done"); got.Status != fsm.Completed || got.Execution().FinishedAt != now || got.CreatedAt != now {
		t.Errorf("the job that was done: %+v", got)
	}
	if got := copyOf(t, back); got.View().Hash() != back.View().Hash() {
		t.Error("the state does not survive its encoding")
	}
	lease := back.Job("held").Execution().HeldMs
	again := setClock(now - 1000)
	again.Request = once.Request
	if r := apply(t, back, now+lease, again); r[0].Code != fsm.Duplicate || r[0].Count != uint64(by) || r[0].LSN.IsZero() {
		t.Errorf("repeated: %v, back by %d ms", r[0].Code, r[0].Count)
	}
	if r := apply(t, back, now+lease, setClock(now+lease)); r[0].Code != fsm.Duplicate || r[0].Count != 0 || !r[0].LSN.IsZero() {
		t.Errorf("a time that is not in the past: %v, back by %d ms", r[0].Code, r[0].Count)
	}
	if got := back.Job("held").Status; got != fsm.InProgress {
		t.Errorf("within its lease the job is %s", got)
	}
	apply(t, back, now+lease+1)
	if got := back.Job("held").Status; got != fsm.Unclaimed {
		t.Errorf("after its lease the job is %s", got)
	}
	apply(t, back, now+day+60_000)
	if got := back.Job("delayed").Status; got != fsm.Unclaimed {
		t.Errorf("a day later the job that was delayed by a day is %s", got)
	}
}

// A job whose batch was removed before the clock was set back does not count in a batch
// that gets the same id in the millisecond of the new time.
func TestSetBackJobWithoutItsBatch(t *testing.T) {
	const now = int64(1_800_000_000_000)
	m := fsm.New()
	batch := &fsmpb.NewBatch{Id: "b"}
	dead := &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{
		Jobs: []*fsmpb.NewJob{{Id: "x", Type: "t", Batch: "b"}}, NewBatch: batch,
	}}}
	apply(t, m, now, registerBroker("n", 1, fsm.Settings{}), dead)
	got := apply(t, m, now, claim("w", 1))[0].Jobs
	apply(t, m, now, fail("w", "x", got[0].Execution().Token, "boom", true))
	apply(t, m, now+1000)
	if m.View().Batch("b") != nil || m.Job("x") == nil {
		t.Fatal("the batch must be gone, and its job there")
	}
	again := &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{NewBatch: batch}}}
	apply(t, m, now+1000, setClock(now-1000), again, forceComplete("x", "1"))
	if b := m.View().Batch("b"); b == nil || b.Total != 0 || b.Completed != 0 {
		t.Errorf("the new batch counts the old job: %+v", b)
	}
}
