package fsm_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// A job that retention removed a short time ago counts for new jobs as it ended.
func TestAfterARemovedJob(t *testing.T) {
	m, _ := completed(t)
	after := func(id, on string, policy fsm.AfterFailure) *fsmpb.Mutation {
		e := enqueueType("kid", id)
		e.GetEnqueue().Jobs[0].After, e.GetEnqueue().Jobs[0].AfterFailure = []string{on}, uint32(policy)
		return e
	}
	if r := apply(t, m, 1000, after("a", "j", fsm.AfterBlock))[0]; r.Code != fsm.OK || m.Job("a").Status != fsm.Unclaimed {
		t.Errorf("after a completed job: %v, %v", r.Code, m.Job("a"))
	}
	apply(t, m, 1000, enqueue("c"), changeOf(fsm.CancelJobs, "c"))
	if m.Job("c") != nil {
		t.Fatal("the cancelled job should be removed")
	}
	for id, want := range map[string]fsm.Status{"run": fsm.Unclaimed, "block": fsm.Cancelled} {
		policy := map[string]fsm.AfterFailure{"run": fsm.AfterRun, "block": fsm.AfterBlock}[id]
		apply(t, m, 1000, after(id, "c", policy))
		if j := m.Job(id); j == nil || j.Status != want {
			t.Errorf("after a cancelled job with the policy %s: %v, want %v", id, j, want)
		} else if want == fsm.Cancelled && j.Execution().LastError != "job c, which it waited for, was cancelled" {
			t.Errorf("it is cancelled because %q", j.Execution().LastError)
		}
	}
	if r := apply(t, m, 301_001, after("late", "j", fsm.AfterBlock))[0]; r.Code != fsm.NoSuchJob {
		t.Errorf("after the record is gone: %v", r.Code)
	}
}
