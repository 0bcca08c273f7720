package fsm_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// eventful is a machine in which everything occurs that the state can hold.
func eventful(t testing.TB) *fsm.Machine {
	m := fsm.New()
	for i, b := range eventfulPast() {
		m.Apply(uint64(i+1), 1, decode(t, entry(t, b)))
	}
	v := m.View()
	for name, there := range map[string]int{
		"turns": count(v.Turns), "holds": count(v.Holds), "requests": count(v.Requests), "claims": count(v.Claims),
		"workers": v.WorkerCount(), "queues": count(v.Queues), "crons": v.CronCount(),
		"batches": count(v.Batches("")), "limits": count(v.Limits), "lanes": count(v.Lanes),
	} {
		if there == 0 {
			t.Fatalf("an eventful machine has no %s", name)
		}
	}
	for _, s := range allStatuses {
		if v.Counts().Of(s) == 0 {
			t.Fatalf("an eventful machine has no job that is %v", s)
		}
	}
	if d := m.Job("s1").Details(); len(d.Steps)*len(d.Signals)*len(d.Links) == 0 || d.Awaits == "" || !m.Job("only").Details().FailedBefore {
		t.Fatal("an eventful machine has no job that is suspended, or none that runs after a failure")
	}
	return m
}

func count[T any](scan func(func(T) bool)) (n int) {
	scan(func(T) bool { n++; return true })
	return n
}

// eventfulPast are the entries of an eventful machine.
func eventfulPast() []*fsmpb.Batch {
	two, rate := int64(2), int64(50_000)
	settings := &fsmpb.SetQueue{
		Name: "t", MaxRunning: &rate, MaxRunningPerGroup: &two, RateMilli: &rate, Burst: &rate, TimeoutMs: &rate,
		Backoff: &fsmpb.Backoff{Kind: uint32(backoff.Linear), BaseMs: 10, JitterPercent: 50}, RetainCount: &two,
		MaxJobs: &rate,
	}
	batch := func(now int64, muts ...*fsmpb.Mutation) *fsmpb.Batch {
		return &fsmpb.Batch{NowMs: now, Random: uint64(now) << 40, Mutations: muts}
	}
	return []*fsmpb.Batch{
		batch(1000, registerBroker("n1", 1, fsm.DefaultSettings()), registerWorker("w", "t"),
			&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: settings}},
			&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "idle", MaxAttempts: &two}}},
			cronOf("c", 2000, false), cronOf("paused", 0, true)),
		batch(1001, requested("k1", batchOf("b", "a", "b", "c", "d")), batchOf("over", "o"), groupsOf("t", "x", "y", "z"),
			enqueueAt(90_000, "later"), uniques(), startBefore(1500, "in vain")),
		batch(1002, requested("k2", claimAs("w", "request 1", 6)), claim(fsm.Anonymous, 2)),
		batch(1003, waitersOf("a"), progress("w", "b", 50), changeOf(fsm.CancelJobs, "b", "later"),
			completeWithLog("w", "a", 0, "said"), fail("w", "c", 0, "too bad", true), fail("w", "d", 0, "once more", false),
			complete("w", "o", 0), complete("w", "a", 0)),
		batch(1500, suspended("b")...),
		batch(2000,
			&fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
				Name: "c", DueMs: 2000, AtMs: 2000, NextMs: 3000, JobId: "fired",
			}}},
			&fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: "paused", JobId: "triggered"}}},
			changeOf(fsm.RetryJobs, "later"), changeOf(fsm.CancelJobs, "triggered"),
			enqueueAt(90_000, "much later"),
			setLimit("k*", &fsmpb.LimitRule{Running: 1}), throttleLimit("k1", 5000, "", nil), limitedJob("t", "x", "parked", "k1", "l")),
	}
}

// suspended makes two jobs that wait for a signal and for the end of a batch, with all that a job keeps, and one that was enqueued
// to run only after the batch has failed.
func suspended(batch string) []*fsmpb.Mutation {
	only := enqueueType("suspended", "only")
	n := only.GetEnqueue().Jobs[0]
	n.Optional().After, n.Optional().AfterNames, n.Optional().AfterBatches, n.Optional().AfterFailure, n.Optional().Step = []string{"c", "d"}, []string{"dead", "alive"}, []string{batch}, uint32(fsm.AfterOnly), "last"
	return []*fsmpb.Mutation{
		enqueueType("suspended", "s1", "s2"), claim("w", 2, "suspended"),
		storeStep("w", "s1", 0, "fetch", "1"), sendSignal("s1", "early", "i", "2"), makeLink("s1", "go", make([]byte, 32), 90_000),
		suspend("w", "s1", 0, 90_000, "go"), suspendUntilEnd("w", "s2", 0, batch), only,
	}
}

// startBefore enqueues jobs that expire at a time.
func startBefore(at int64, ids ...string) *fsmpb.Mutation {
	m := enqueueType("expiring", ids...)
	for _, n := range m.GetEnqueue().Jobs {
		n.Optional().StartBeforeMs, n.Priority = at, -1
	}
	return m
}

func requested(key string, m *fsmpb.Mutation) *fsmpb.Mutation {
	m.Request = &fsmpb.Request{Key: key, Fingerprint: []byte("f")}
	return m
}

func cronOf(name string, next int64, paused bool) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: name, Spec: "0 3 * * *", TimeZone: "Europe/Berlin", Job: &fsmpb.NewJob{Type: "t", Options: &fsmpb.Options{Tags: []string{"cron"}}},
		Overlap: uint32(fsm.OverlapSkip), Missed: uint32(fsm.MissedOne), NextMs: next, Paused: paused,
	}}}
}

// batchOf enqueues jobs in a new batch, in groups of their own names.
func batchOf(id string, ids ...string) *fsmpb.Mutation {
	m := enqueue(ids...)
	m.GetEnqueue().NewBatch = &fsmpb.NewBatch{Id: id, Callback: &fsmpb.NewJob{Id: id + " is over", Type: "callback"}}
	for _, n := range m.GetEnqueue().Jobs {
		n.Optional().Batch, n.Optional().Group, n.Optional().Tags, n.Priority = id, n.Id, []string{"tagged", n.Id}, 1
	}
	return m
}

// groupsOf enqueues three jobs in each group.
func groupsOf(jobType string, groups ...string) *fsmpb.Mutation {
	m := &fsmpb.Enqueue{}
	for _, g := range groups {
		for _, id := range []string{"1", "2", "3"} {
			m.Jobs = append(m.Jobs, &fsmpb.NewJob{Id: g + id, Type: jobType, Options: &fsmpb.Options{Group: g}})
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: m}}
}

// uniques enqueues a job with a key of each scope.
func uniques() *fsmpb.Mutation {
	m := enqueueType("unique", "u1", "u2", "u3")
	for i, n := range m.GetEnqueue().Jobs {
		n.Optional().Unique = &fsmpb.Unique{Key: n.Id, Scope: uint32(i + 1), PeriodMs: 50_000}
	}
	return m
}

// waitersOf enqueues a job that waits with each choice, and one that waits for
// these.
func waitersOf(id string) *fsmpb.Mutation {
	m := enqueueType("waits", "w1", "w2", "w3", "w4")
	jobs := m.GetEnqueue().Jobs
	for i, n := range jobs[:3] {
		n.Optional().After, n.Optional().AfterFailure = []string{id}, uint32(i)
	}
	jobs[3].Optional().After = []string{"w1", "w2", "later"}
	return m
}

func progress(worker, id string, percent uint32) *fsmpb.Mutation {
	m := heartbeat(worker, id, 0)
	m.GetHeartbeat().Leases[0].Progress = &fsmpb.Progress{Percent: percent, Message: "busy"}
	return m
}

// goesFurther runs a machine, and one restored from it, through a few entries
// of the kinds that goesOn has not.
func goesFurther(t *testing.T, m *fsm.Machine) {
	t.Helper()
	restoredCopy := copyOf(t, m)
	now := sum(m.Now(), 1)
	for i, muts := range [][]*fsmpb.Mutation{
		{changeAll(fsm.CancelJobs), changeAll(fsm.RetryJobs)},
		{claim("w", 1000), dueCrons(m)},
		{batchOf("new batch", "n1", "n2"), waitersOf("n1"), uniques(), groupsOf("t", "x", "q")},
		{claim("w", 1000, "t", "unique"), {Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", Remove: true}}}},
		{changeAll(fsm.CancelJobs), workerDead("w")},
		{changeAll(fsm.DeleteJobs)},
		nil,
	} {
		for _, m := range []*fsm.Machine{m, restoredCopy} {
			m.Apply(uint64(i), 1<<41, decode(t, entry(t, &fsmpb.Batch{NowMs: now, Mutations: muts})))
			if err := m.CheckIndexes(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		if m.View().Hash() != restoredCopy.View().Hash() || wakeups(m) != wakeups(restoredCopy) {
			t.Fatalf("step %d: a restart made a difference", i)
		}
		now = sum(now, 40_000)
	}
}

func changeAll(kind fsm.ChangeKind) *fsmpb.Mutation {
	m := changeOf(kind)
	m.GetChange().Filter = &fsmpb.Filter{}
	return m
}

// dueCrons fires the first schedule that is there, for its next time.
func dueCrons(m *fsm.Machine) *fsmpb.Mutation {
	op := &fsmpb.FireCron{JobId: "fired by " + m.LSN().String()}
	for c := range m.View().Crons("") {
		op.Name, op.DueMs, op.AtMs, op.NextMs = c.Name, c.NextAtMs, c.NextAtMs, sum(c.NextAtMs, 1000)
		if c.NextAtMs != 0 {
			break
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: op}}
}
