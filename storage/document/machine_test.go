package document_test

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tester is the common part of testing.TB and rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// apply applies mutations through the encoding of the log, as a node does.
func apply(t tester, m *fsm.Machine, term uint64, now int64, muts ...*fsmpb.Mutation) []fsm.Result {
	t.Helper()
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: now, Mutations: muts})
	if err != nil {
		t.Fatalf("encode entry: %v", err)
	}
	b, err := fsm.DecodeEntry(data)
	if err != nil {
		t.Fatalf("decode entry: %v", err)
	}
	return m.Apply(m.Meta().LSN.Index+1, term, b)
}

func newJob(id, payload string) *fsmpb.NewJob { return &fsmpb.NewJob{Id: id, Payload: []byte(payload)} }

func enqueue(jobs ...*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}

func claim(worker, request string, n uint32, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{
		Worker: worker, RequestId: request, Max: n, Types: types,
	}}}
}

func complete(worker string, l *fsmpb.Lease, result []byte) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: worker, Lease: l, Result: result,
	}}}
}

func fail(worker string, l *fsmpb.Lease, reason string, permanent bool, delayMs int64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker: worker, Lease: l, Error: reason, Permanent: permanent, RetryDelayMs: &delayMs,
	}}}
}

func change(kind fsm.ChangeKind, ids ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(kind), Ids: ids}}}
}

func release(worker string, l *fsmpb.Lease) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{Worker: worker, Lease: l}}}
}

func registerWorker(name string, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
		Name: name, Types: types, Version: "1.2", Address: "w:1",
	}}}
}

func registerBroker(node, address string, epoch uint64) *fsmpb.Mutation {
	s := fsm.DefaultSettings()
	s.RetainCompletedCount = 5
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: node, Address: address, Epoch: epoch, Cluster: "cl", Lineage: "li", Settings: s.ToPB(),
	}}}
}

var header = document.Header{
	Lineage: "li", Cluster: "cl", Epoch: 7, Node: "n1", Write: "w2", Writes: []string{"w1", "w2"},
}

// machine decodes a document and builds its machine.
func machine(t tester, data []byte) (*document.File, *fsm.Machine) {
	t.Helper()
	doc, err := document.Decode(data)
	if err != nil {
		t.Fatalf("%v\nin %s", err, data)
	}
	m, err := doc.Machine()
	if err != nil {
		t.Fatalf("%v\nin %s", err, data)
	}
	return doc, m
}

// rich returns a state with every kind of record.
func rich(t testing.TB) *fsm.Machine {
	t.Helper()
	m := fsm.New()
	two := int32(2)
	zero := int32(0)
	broker := registerBroker("n1", "10.0.0.1:8080", 7)
	s := broker.GetRegisterBroker().Settings
	s.MaxJobs, s.MaxBytes, s.MaxPayload = 1_000_000, 1<<33, 1<<20
	apply(t, m, 1, 1_706_000_000_000, broker, registerWorker("w1", "email", "sms"))
	apply(t, m, 1, 1_706_000_000_010,
		enqueue(
			&fsmpb.NewJob{Id: "j1", Type: "email", Payload: []byte(`{"to": "a@example.test"}`), MaxAttempts: &two},
			&fsmpb.NewJob{Id: "j2"},
			&fsmpb.NewJob{Id: "j3", Type: "sms", Payload: []byte("null"), MaxAttempts: &zero, Priority: -1},
			&fsmpb.NewJob{Id: "j4", Payload: []byte("4"), LeaseMs: 60_000},
			&fsmpb.NewJob{Id: "j5", Payload: []byte("5")},
			&fsmpb.NewJob{Id: "j6", Payload: []byte("\x00 no JSON")},
			&fsmpb.NewJob{Id: "j7", RunAtMs: 1_706_000_100_000},
		))
	jobs := apply(t, m, 2, 1_706_000_000_020, claim("w1", "r1", 2), claim(fsm.Anonymous, "", 1), claim("w2", "", 2))
	l := func(r, i int) *fsmpb.Lease {
		return &fsmpb.Lease{JobId: jobs[r].Jobs[i].ID, Token: jobs[r].Jobs[i].Execution().Token}
	}
	done := complete("w1", l(0, 1), []byte("[1, 2]"))
	done.GetComplete().Log = "sent\nto 2\n"
	apply(t, m, 2, 1_706_000_000_030,
		done,
		fail("w2", l(2, 0), "disk\nfull", true, 0),
		fail("w2", l(2, 1), "try later", false, 5000))
	enrich(t, m)
	return m
}

// enrich adds rare records.
func enrich(t testing.TB, m *fsm.Machine) {
	t.Helper()
	backoff := &fsmpb.Backoff{Kind: uint32(fsm.BackoffExponential), BaseMs: 500, CapMs: 60_000, JitterPercent: 20}
	unique := func(key string, scope fsm.UniqueScope, period int64) *fsmpb.Unique {
		return &fsmpb.Unique{Key: key, Scope: uint32(scope), PeriodMs: period}
	}
	set := &fsmpb.SetQueue{
		Name: "report", Paused: new(false), MaxRunning: new(int64(9)), MaxRunningPerGroup: new(int64(3)),
		RateMilli: new(int64(500)), Burst: new(int64(20)), LeaseMs: new(int64(20_000)), TimeoutMs: new(int64(90_000)),
		MaxAttempts: new(int64(5)), Backoff: backoff, RetainMs: new(int64(1000)), RetainCount: new(int64(7)),
		MaxJobs: new(int64(1000)), MaxBytes: new(int64(1 << 60)), MaxPayload: new(int64(1 << 20)),
	}
	cron := &fsmpb.PutCron{
		Name: "nightly", Spec: "0 3 * * *", TimeZone: "Europe/Berlin", NextMs: 1_706_000_000_060,
		Overlap: uint32(fsm.OverlapSkip), Missed: uint32(fsm.MissedOne),
		Job: &fsmpb.NewJob{
			Type: "report", Payload: []byte(`{"all":true}`), Priority: 5, MaxAttempts: new(int32(1)), LeaseMs: 7000,
			Backoff: backoff, TimeoutMs: 60_000, Group: "g3", Tags: []string{"nightly"}, Unique: unique("n", fsm.UniqueActive, 0),
		},
	}
	apply(t, m, 2, 1_706_000_000_040,
		&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: set}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "sms", Paused: new(true)}}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: cron}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{Name: "off", Spec: "@hourly", Paused: true, Job: &fsmpb.NewJob{}}}},
	)
	add := enqueue(
		&fsmpb.NewJob{
			Id: "r1", Type: "report", Group: "g1", Tags: []string{"a", "b\xff"}, Batch: "b1", Backoff: backoff, TimeoutMs: 5000,
			Unique: unique("k1", fsm.UniquePeriod, 3_600_000), Priority: 9,
		},
		&fsmpb.NewJob{Id: "r2", Type: "report", Group: "g1", Batch: "b1", Unique: unique("k2", fsm.UniqueWaiting, 0)},
		&fsmpb.NewJob{Id: "r3", Type: "report", Group: "g2", Batch: "b1"},
		&fsmpb.NewJob{Id: "r4", Type: "report", Group: "g2", Batch: "b1", After: []string{"j2", "r1", "r3"}, AfterFailure: uint32(fsm.AfterRun)},
		&fsmpb.NewJob{Id: "r5", Type: "report", Priority: 8},
		&fsmpb.NewJob{Id: "r6", Type: "report", RunAtMs: 1_706_000_200_000},
	)
	add.GetEnqueue().NewBatch = &fsmpb.NewBatch{
		Id: "b1", CallbackOn: uint32(fsm.CallbackCompleted),
		Callback: &fsmpb.NewJob{Id: "done", Type: "report", Payload: []byte("\xff")},
	}
	add.Request = &fsmpb.Request{Key: "q1", Fingerprint: []byte{0xff, 0}}
	changed := change(fsm.CancelJobs)
	changed.GetChange().Filter = &fsmpb.Filter{Type: new("report"), Statuses: []uint32{uint32(fsm.Scheduled)}}
	changed.GetChange().Limit, changed.Request = 1, &fsmpb.Request{Key: "q2"}
	apply(t, m, 2, 1_706_000_000_050, add)
	jobs := apply(t, m, 2, 1_706_000_000_055, claim("w1", "r2", 2, "report"))[0].Jobs
	apply(t, m, 2, 1_706_000_000_060,
		fail("w1", &fsmpb.Lease{JobId: jobs[0].ID, Token: jobs[0].Execution().Token}, "no paper", false, 90_000), changed,
		&fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
			Name: "nightly", DueMs: 1_706_000_000_060, AtMs: 1_706_000_000_060, Missed: 2, NextMs: 1_706_086_400_060, JobId: "night-1",
		}}})
	jobs = apply(t, m, 2, 1_706_000_000_070, claim("w1", "", 1, "report"))[0].Jobs
	apply(t, m, 2, 1_706_000_000_080,
		&fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{Worker: "w1", Leases: []*fsmpb.Lease{{
			JobId: jobs[0].ID, Token: jobs[0].Execution().Token, Progress: &fsmpb.Progress{Percent: 40, Message: "page 4"},
		}}}}},
		change(fsm.CancelJobs, jobs[0].ID),
		&fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: "nightly", JobId: "night-2"}}})
	// The times in the other records pass, and another batch ends.
	ended := enqueue(&fsmpb.NewJob{Id: "e1", Type: "email", Batch: "b2"})
	ended.GetEnqueue().NewBatch = &fsmpb.NewBatch{Id: "b2", Callback: &fsmpb.NewJob{Id: "e2", Type: "email", After: []string{"none"}}}
	cancel, slow := change(fsm.CancelJobs, "e1", "e9"), claim(fsm.Anonymous, "", 1, "slow")
	cancel.Request, slow.Request = &fsmpb.Request{Key: "q3"}, &fsmpb.Request{Key: "q4"}
	apply(t, m, 2, 1_706_000_000_090, ended, cancel, enqueue(&fsmpb.NewJob{Id: "s1", Type: "slow", TimeoutMs: 5}), slow,
		&fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
			Name: "nightly", DueMs: 1_706_086_400_060, AtMs: 1_706_000_000_090, NextMs: 1_706_172_800_060, JobId: "night-3",
		}}})
	apply(t, m, 2, 1_706_000_000_100)
}
