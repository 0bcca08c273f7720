package fsm_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestPermitsDoNotWaitForTimers (R6): with more timers due than an entry may fire, a
// machine that lived on and one that was restored give a claim the same jobs.
func TestPermitsDoNotWaitForTimers(t *testing.T) {
	rate, burst := int64(1000), int64(1)
	m := fsm.New()
	m.SetBudgets(10, 2, 10)
	apply(t, m, 1000,
		&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "a", RateMilli: &rate, Burst: &burst}}},
		enqueueType("a", "a1", "a2"), claim("w", 1, "a"))
	for _, id := range []string{"b1", "b2", "b3", "b4"} {
		apply(t, m, 1000, enqueueAt(1500, id))
	}
	apply(t, m, 3000) // fires two of the four; the permit came at 2000
	restored := copyOf(t, m)
	for name, m := range map[string]*fsm.Machine{"lived on": m, "restored": restored} {
		if r := apply(t, m, 3000, claim("w", 1, "a")); len(r[0].Jobs) != 1 {
			t.Errorf("%s: the claim gets %d jobs, want 1", name, len(r[0].Jobs))
		}
	}
	if m.View().Hash() != restored.View().Hash() {
		t.Error("the states differ after the same log")
	}
}

// TestPutOfAScheduleThatFiresMeanwhile: a PUT whose next time was computed before the
// schedule fired for it does not make it fire again.
func TestPutOfAScheduleThatFiresMeanwhile(t *testing.T) {
	put := func(spec string, next int64) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{Name: "c", Spec: spec, Job: &fsmpb.NewJob{Type: "t"}, NextMs: next}}}
	}
	fire := &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{Name: "c", DueMs: 2000, AtMs: 2000, NextMs: 3000, JobId: "j"}}}
	m := fsm.New()
	apply(t, m, 1000, put("s", 2000))
	apply(t, m, 2000, fire)
	r := apply(t, m, 2001, put("s", 2000))
	if next := nextOf(m); next != 3000 || r[0].Code != fsm.OK {
		t.Errorf("next time %d, %v", next, r[0].Code)
	}
	if r := apply(t, m, 2002, put("other", 2000)); r[0].Code != fsm.NotDue {
		t.Errorf("another spec by a time that has passed: %v", r[0].Code)
	}
}

// TestFirstPutOfAScheduleAfterItsTime: a schedule whose first PUT is committed after the
// time that was computed for it does not fire for that time, only for the next one.
func TestFirstPutOfAScheduleAfterItsTime(t *testing.T) {
	fire := func(at int64, id string) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{Name: "c", DueMs: at, AtMs: at, NextMs: at + 1000, JobId: id}}}
	}
	m := fsm.New()
	apply(t, m, 2500, &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: "c", Missed: uint32(fsm.MissedOne), Job: &fsmpb.NewJob{Type: "t"}, NextMs: 2000,
	}}})
	if r := apply(t, m, 2501, fire(2000, "early")); r[0].Code != fsm.OK || nextOf(m) != 3000 {
		t.Fatalf("fire: %v, next time %d", r[0].Code, nextOf(m))
	}
	if c := m.View().Cron("c"); c.Fired != 0 || c.Skipped != 1 || c.LastError == "" {
		t.Errorf("the time before the PUT: fired %d, skipped %d, last error %q", c.Fired, c.Skipped, c.LastError)
	}
	apply(t, m, 3000, fire(3000, "next"))
	if c := m.View().Cron("c"); c.Fired != 1 || c.LastError != "" || m.Job("next") == nil {
		t.Errorf("the time after the PUT: fired %d, last error %q", c.Fired, c.LastError)
	}
}

// nextOf is the next time of the first schedule.
func nextOf(m *fsm.Machine) (next int64) {
	next, _ = m.NextDeadline(nil)
	return next
}
