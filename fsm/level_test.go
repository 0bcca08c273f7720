package fsm_test

import (
	"bytes"
	"errors"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestEntriesHaveTheLowestVersion: an older node reads every entry that has no feature
// that it does not know, from any writer and at any level of the state.
func TestEntriesHaveTheLowestVersion(t *testing.T) {
	for _, m := range everyKind(t).Mutations {
		want := uint32(fsm.BaseLevel)
		if m.GetRaiseLevel() != nil {
			want = fsm.Level7
		}
		if m.GetCheckState() != nil || m.GetStateChecked() != nil {
			want = fsm.Level8
		}
		if m.GetSetClock() != nil {
			want = fsm.Level9
		}
		if m.GetCreateToken() != nil || m.GetRevokeToken() != nil || m.GetTouchTokens() != nil {
			want = fsm.Level10
		}
		if fsm.LevelOf(m) == fsm.Level11 {
			want = fsm.Level11 // a hook, or a job, which has headers in the test
		}
		if m.GetSetQuiet() != nil {
			want = fsm.Level12
		}
		checkVersion(t, m, want)
	}
	able := registerWorker("w", "t")
	able.GetRegisterWorker().Capacity = 1
	checkVersion(t, able, fsm.Level12)
	for _, kind := range []fsm.AnnounceKind{fsm.AnnounceBucketDamaged, fsm.AnnounceBucketHealed} {
		checkVersion(t, announce(kind, ""), fsm.Level9)
	}
	traced := &fsmpb.NewJob{Headers: []*fsmpb.Header{{Name: "traceparent", Value: "1"}}}
	counted := &fsmpb.NewJob{Quota: &fsmpb.Quota{Account: "a"}}
	limited := createToken("t", fsm.RoleProducer)
	limited.GetCreateToken().Token.MaxJobs = 1
	for _, m := range []*fsmpb.Mutation{
		limited,
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{counted}}}},
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{}, traced}}}},
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{NewBatch: &fsmpb.NewBatch{Id: "b", Callback: traced}}}},
		{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{Name: "c", Job: traced}}},
	} {
		checkVersion(t, m, fsm.Level11)
	}
	for _, m := range []*fsmpb.Mutation{
		{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Owner: 1}}},
		{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{Owner: 1}}},
		{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Owner: 1, Lease: &fsmpb.Lease{}}}},
		{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Owner: 1, Lease: &fsmpb.Lease{}}}},
		{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{Owner: 1, Lease: &fsmpb.Lease{}}}},
	} {
		checkVersion(t, m, fsm.Level10)
	}
	checkVersion(t, by("token a", enqueue("a")), fsm.Level12)
	checkVersion(t, createToken("m", fsm.RoleMark), fsm.Level11)
	checkVersion(t, replaceToken("new", "old", 0), fsm.Level12)
	checkVersion(t, pauseOf("t", &fsmpb.Pause{}), fsm.Level11)
	checkVersion(t, pauseOf("t", nil), fsm.BaseLevel)
	if got := decode(t, entry(t, &fsmpb.Batch{})).Version; got != fsm.BaseLevel {
		t.Errorf("an empty entry: version %d", got)
	}
}

// checkVersion checks the version of entries with m.
func checkVersion(t *testing.T, m *fsmpb.Mutation, want uint32) {
	t.Helper()
	group := &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{announce(1, ""), m}}}}
	batches := []*fsmpb.Batch{{Mutations: []*fsmpb.Mutation{announce(1, ""), m}}}
	if m.GetGroup() == nil && m.Request == nil && m.Actor == "" {
		batches = append(batches, &fsmpb.Batch{Mutations: []*fsmpb.Mutation{group}})
	}
	for _, b := range batches {
		if got := decode(t, entry(t, b)).Version; got != want {
			t.Errorf("%T: version %d, want %d", m.Op, got, want)
		}
	}
}

// TestLevelIsPartOfTheState: it starts at the base, only grows, and comes back from a
// snapshot. A snapshot of the base level names no level, so that older nodes read it.
func TestLevelIsPartOfTheState(t *testing.T) {
	m := fsm.New()
	if m.Level() != fsm.BaseLevel {
		t.Fatalf("a new machine has level %d", m.Level())
	}
	if got := copyOf(t, m).Level(); got != fsm.BaseLevel {
		t.Fatalf("restored: level %d", got)
	}
	if r := apply(t, m, 1, raiseLevel(fsm.Level7), raiseLevel(fsm.Level7)); r[0].Code != fsm.OK || r[1].Code != fsm.Duplicate {
		t.Fatalf("raising twice: %v and %v", r[0].Code, r[1].Code)
	}
	if m.Level() != fsm.Level7 || copyOf(t, m).Level() != fsm.Level7 {
		t.Fatalf("level %d, restored %d", m.Level(), copyOf(t, m).Level())
	}
}

// TestSnapshotOfANewerLevel is refused with the reason, not as one that is damaged,
// even if it has unknown fields.
func TestSnapshotOfANewerLevel(t *testing.T) {
	meta := &fsmpb.Meta{Level: fsm.MaxLevel + 1}
	meta.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x01})
	data, err := meta.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	stream := append([]byte("osqueue snapshot 1\n"), byte(len(data)))
	if _, err := fsm.Decode(bytes.NewReader(append(stream, data...))); !errors.Is(err, fsm.ErrLevel) || !errors.Is(err, fsm.ErrSnapshot) {
		t.Fatalf("decode: %v", err)
	}
	if err := (fsm.Meta{Level: fsm.MaxLevel + 1}).Check(); !errors.Is(err, fsm.ErrLevel) || !errors.Is(err, fsm.ErrState) {
		t.Fatalf("check: %v", err)
	}
}

// TestPermitsDoNotWaitForTimers (R6): with more timers due than an entry may fire, a
// machine that lived on and one that was restored give a claim the same jobs.
func TestPermitsDoNotWaitForTimers(t *testing.T) {
	rate, burst := int64(1000), int64(1)
	m := fsm.New()
	m.SetBudgets(10, 2, 10)
	apply(t, m, 1000, raiseLevel(fsm.Level7),
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
	for level, want := range map[uint32]struct {
		next int64
		code fsm.Code
	}{fsm.BaseLevel: {2000, fsm.OK}, fsm.Level7: {3000, fsm.OK}} {
		m := fsm.New()
		if level > fsm.BaseLevel {
			apply(t, m, 1000, raiseLevel(level))
		}
		apply(t, m, 1000, put("s", 2000))
		apply(t, m, 2000, fire)
		r := apply(t, m, 2001, put("s", 2000))
		if next := nextOf(m); next != want.next || r[0].Code != want.code {
			t.Errorf("level %d: next time %d, %v", level, next, r[0].Code)
		}
		if r := apply(t, m, 2002, put("other", 2000)); level >= fsm.Level7 && r[0].Code != fsm.NotDue {
			t.Errorf("level %d: another spec by a time that has passed: %v", level, r[0].Code)
		}
	}
}

// TestFirstPutOfAScheduleAfterItsTime: a schedule whose first PUT is committed after the
// time that was computed for it does not fire for that time, only for the next one.
func TestFirstPutOfAScheduleAfterItsTime(t *testing.T) {
	fire := func(at int64, id string) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{Name: "c", DueMs: at, AtMs: at, NextMs: at + 1000, JobId: id}}}
	}
	for level, want := range map[uint32]struct{ early, fired uint64 }{fsm.Level7: {1, 2}, fsm.Level8: {0, 1}} {
		m := fsm.New()
		apply(t, m, 1000, raiseLevel(level))
		apply(t, m, 2500, &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: "c", Missed: uint32(fsm.MissedOne), Job: &fsmpb.NewJob{Type: "t"}, NextMs: 2000,
		}}})
		if r := apply(t, m, 2501, fire(2000, "early")); r[0].Code != fsm.OK || nextOf(m) != 3000 {
			t.Fatalf("level %d: fire: %v, next time %d", level, r[0].Code, nextOf(m))
		}
		c := m.View().Cron("c")
		if c.Fired != want.early || c.Fired+c.Skipped != 1 || (c.LastError == "") != (want.early == 1) {
			t.Errorf("level %d: the time before the PUT: fired %d, skipped %d, last error %q", level, c.Fired, c.Skipped, c.LastError)
		}
		apply(t, m, 3000, fire(3000, "next"))
		if c := m.View().Cron("c"); c.Fired != want.fired || c.LastError != "" || m.Job("next") == nil {
			t.Errorf("level %d: the time after the PUT: fired %d, last error %q", level, c.Fired, c.LastError)
		}
	}
}

// nextOf is the next time of the first schedule.
func nextOf(m *fsm.Machine) (next int64) {
	next, _ = m.NextDeadline(nil)
	return next
}
