package fsm_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// inAccount gives the jobs of an enqueue an account with limits.
func inAccount(m *fsmpb.Mutation, account string, jobs, bytes int64) *fsmpb.Mutation {
	for _, n := range m.GetEnqueue().Jobs {
		n.Quota = &fsmpb.Quota{Account: account, MaxJobs: jobs, MaxBytes: bytes}
	}
	return m
}

// A producer's jobs count until they have ended, again after a retry, and in a restored state.
func TestAccountUsage(t *testing.T) {
	m := fsm.New()
	usage := func(jobs, bytes int64) {
		t.Helper()
		for name, of := range map[string]*fsm.Machine{"applied": m, "restored": copyOf(t, m)} {
			if j, b := of.AccountUsage("k"); j != jobs || b != bytes {
				t.Errorf("%s: %d jobs and %d bytes, want %d and %d", name, j, b, jobs, bytes)
			}
		}
	}
	apply(t, m, 2, inAccount(enqueue("a", "b"), "k", 2, 0), enqueue("z"))
	usage(2, 20)
	if code := apply(t, m, 3, inAccount(enqueue("c"), "k", 2, 0))[0].Code; code != fsm.TooManyTokenJobs {
		t.Errorf("a third job: %v", code)
	}
	if code := apply(t, m, 3, inAccount(enqueue("c"), "k", 0, 29))[0].Code; code != fsm.TooManyTokenBytes {
		t.Errorf("a third payload: %v", code)
	}
	if code := apply(t, m, 3, inAccount(enqueue("a"), "k", 1, 1))[0].Code; code != fsm.OK {
		t.Errorf("an old job: %v", code)
	}
	if code := apply(t, m, 3, inAccount(enqueue("o", "p"), "other", 1, 0))[0].Code; code != fsm.TooManyTokenJobs {
		t.Errorf("two jobs where one is allowed: %v", code)
	}
	apply(t, m, 4, changeOf(fsm.CancelJobs, "a"))
	usage(1, 10)
	apply(t, m, 5, changeOf(fsm.RetryJobs, "a"))
	usage(2, 20)
	job := apply(t, m, 6, claim("w", 1))[0].Jobs[0]
	usage(2, 20)
	apply(t, m, 7, complete("w", job.ID, job.Execution().Token))
	usage(1, 10)
	apply(t, m, 8, changeOf(fsm.DeleteJobs, "a", "b"))
	usage(0, 0)
}

// Jobs without any other option share the options of their account, also after a restore.
func TestAccountTakesNoMemoryPerJob(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1, inAccount(enqueue("a", "b"), "k", 5, 0))
	for name, of := range map[string]*fsm.Machine{"applied": m, "restored": copyOf(t, m)} {
		if a, b := of.Job("a"), of.Job("b"); a.Opt == nil || a.Opt != b.Opt || a.Opt.Account != "k" {
			t.Errorf("%s: options %p and %p", name, a.Opt, b.Opt)
		}
	}
}

// A schedule keeps the limits of the token that made it after the token's revocation, until it is
// put again.
func TestAScheduleOfARevokedToken(t *testing.T) {
	m := fsm.New()
	put := &fsmpb.PutCron{Name: "c", Job: &fsmpb.NewJob{Type: "t", Quota: &fsmpb.Quota{Account: "k", MaxJobs: 1}}, NextMs: 1000}
	fire := func(now int64, id string) {
		apply(t, m, now, &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{Name: "c", DueMs: now, AtMs: now, NextMs: now + 1000, JobId: id}}})
	}
	apply(t, m, 1, createToken("k", fsm.RoleProducer), &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: put}})
	apply(t, m, 2, revokeToken("k", 0))
	fire(1000, "first")
	fire(2000, "second")
	if c := m.View().Cron("c"); m.Job("first") == nil || m.Job("second") != nil || c.Fired != 1 || c.Skipped != 1 || c.LastError == "" {
		t.Fatalf("after the revocation: %+v", c)
	}
	put.Job.Quota, put.NextMs = nil, 3000
	apply(t, m, 2500, &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: put}})
	fire(3000, "third")
	if m.Job("third") == nil {
		t.Errorf("put again, without limits: %+v", m.View().Cron("c"))
	}
}
