package fsm_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// onceOnly is a machine with a job that has one attempt.
func onceOnly(t *testing.T) *fsm.Machine {
	t.Helper()
	m := fsm.New()
	job := enqueue("j")
	job.GetEnqueue().Jobs[0].MaxAttempts = new(int32(1))
	apply(t, m, 1000, job)
	return m
}

func confirming(worker string, instance uint64) *fsmpb.Mutation {
	c := claim(worker, 1)
	c.GetClaim().Instance, c.GetClaim().Confirms, c.GetClaim().LeaseMs = instance, true, 100
	return c
}

// A frozen worker with a claim that waits is granted the last attempt of a job, and never
// starts it: the attempt does not count, three times at most.
func TestAnUnconfirmedLastAttemptIsGivenBack(t *testing.T) {
	m := onceOnly(t)
	now := int64(1000)
	for range 3 {
		j := apply(t, m, now, confirming("frozen", 1))[0].Jobs[0]
		if !j.Execution().Unconfirmed || j.Attempts != 1 {
			t.Fatalf("unconfirmed %v, attempt %d", j.Execution().Unconfirmed, j.Attempts)
		}
		now += 101
		apply(t, m, now)
		if j := m.Job("j"); j.Status != fsm.Unclaimed || j.Attempts != 0 {
			t.Fatalf("after the lease it is %v with %d attempts; it should be given back", j.Status, j.Attempts)
		}
		if r := apply(t, m, now, complete("frozen", "j", j.Execution().Token))[0]; r.Code != fsm.LeaseExpired {
			t.Errorf("a late report: %v", r.Code)
		}
	}
	if j := apply(t, m, now, confirming("frozen", 1))[0].Jobs[0]; j.Execution().Unconfirmed {
		t.Error("the fourth is given back, too")
	}
	apply(t, m, now+101)
	if j := m.Job("j"); j.Status != fsm.Dead {
		t.Errorf("after four leases it is %v", j.Status)
	}
}

// An attempt counts that a heartbeat has confirmed, one of a claim that does not confirm, one
// that is not the last, and one that the worker ended.
func TestAttemptsThatCount(t *testing.T) {
	for name, run := range map[string]func(m *fsm.Machine) fsm.Status{
		"confirmed": func(m *fsm.Machine) fsm.Status {
			token := apply(t, m, 1000, confirming("w", 1))[0].Jobs[0].Execution().Token
			apply(t, m, 1000, heartbeat("w", "j", token))
			apply(t, m, 1101)
			return m.Job("j").Status
		},
		"of a plain claim": func(m *fsm.Machine) fsm.Status {
			c := confirming("w", 1)
			c.GetClaim().Confirms = false
			apply(t, m, 1000, c)
			apply(t, m, 1101)
			return m.Job("j").Status
		},
		"failed": func(m *fsm.Machine) fsm.Status {
			token := apply(t, m, 1000, confirming("w", 1))[0].Jobs[0].Execution().Token
			apply(t, m, 1000, &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Worker: "w", Lease: &fsmpb.Lease{JobId: "j", Token: token}}}})
			return m.Job("j").Status
		},
	} {
		if got := run(onceOnly(t)); got != fsm.Dead {
			t.Errorf("%s: the job is %v, want it dead", name, got)
		}
	}
}

// The end of a worker's old instance takes nothing from the new one of its name.
func TestTheEndOfAnOldInstance(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1000, enqueue("old", "new"))
	register := func(instance uint64) *fsmpb.Mutation {
		r := registerWorker("roll", "t")
		r.GetRegisterWorker().Instance = instance
		return r
	}
	dead := func(instance uint64) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: &fsmpb.WorkerDead{Name: "roll", Instance: instance}}}
	}
	apply(t, m, 1000, register(1), confirming("roll", 1), register(2), confirming("roll", 2))
	apply(t, m, 1000, dead(1))
	if o, n := m.Job("old").Status, m.Job("new").Status; o != fsm.Unclaimed || n != fsm.InProgress {
		t.Errorf("after the end of the old one its job is %v, and that of the new one %v", o, n)
	}
	if w := m.View().Worker("roll"); w == nil || w.Instance != 2 {
		t.Errorf("the registration of the new one is %+v", w)
	}
	apply(t, m, 1000, dead(2))
	if n := m.Job("new").Status; n != fsm.Unclaimed || m.View().Worker("roll") != nil {
		t.Errorf("after the end of the new one its job is %v", n)
	}
}
