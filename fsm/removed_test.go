package fsm_test

import (
	"fmt"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// completed is a machine that keeps no completed jobs, from which the
// completed job "j", which worker w held with a token, was removed.
func completed(t *testing.T) (m *fsm.Machine, token uint64) {
	t.Helper()
	m = fsm.New()
	none := int64(0)
	apply(t, m, 1000, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", RetainCount: &none}}})
	token = apply(t, m, 1000, enqueue("j"), claimAs("w", "r", 1))[1].Jobs[0].Execution().Token
	if r := apply(t, m, 1000, complete("w", "j", token))[0]; r.Code != fsm.OK || m.Job("j") != nil {
		t.Fatalf("the report is answered %v, the job is %v; it should be completed and removed", r.Code, m.Job("j"))
	}
	return m, token
}

// Requests that a client repeats because it lost the answer change nothing, though
// retention removed the job in between.
func TestRepetitionsForARemovedJob(t *testing.T) {
	m, token := completed(t)
	m = copyOf(t, m)
	if r := apply(t, m, 1000, complete("w", "j", token))[0]; r.Code != fsm.Duplicate || len(r.Jobs) != 1 {
		t.Errorf("the report repeated: %v %v, want %v and the job", r.Code, r.Jobs, fsm.Duplicate)
	}
	if r := apply(t, m, 1000, complete("w", "j", token+1))[0]; r.Code != fsm.NotFound {
		t.Errorf("a report with another token: %v, want %v", r.Code, fsm.NotFound)
	}
	r := apply(t, m, 301_000, enqueue("j", "k"))[0]
	if r.Code != fsm.OK || r.Codes[0] != fsm.Duplicate || r.Jobs[0].Status != fsm.Completed || m.Job("j") != nil {
		t.Errorf("the enqueue repeated: %v %v, the job is %v; want a duplicate of a completed job", r.Code, r.Codes, m.Job("j"))
	}
	other := enqueue("j")
	other.GetEnqueue().Jobs[0].Payload = []byte("other")
	if r := apply(t, m, 301_000, other)[0]; r.Code != fsm.IDTaken {
		t.Errorf("another job with the id: %v, want %v", r.Code, fsm.IDTaken)
	}
	if r := apply(t, m, 301_001, other)[0]; r.Code != fsm.OK || m.Job("j") == nil {
		t.Errorf("another job with the id, later: %v, want %v", r.Code, fsm.OK)
	}
}

// A request on many jobs counts as several, so that the limit bounds the memory.
func TestRequestsCountByTheirItems(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n", Epoch: 1, Settings: &fsmpb.Settings{RequestMs: 1000, RequestCount: 100},
	}}})
	for batch := range 200 {
		ids := make([]string, 100)
		for i := range ids {
			ids[i] = fmt.Sprint(batch, "-", i)
		}
		mut := enqueue(ids...)
		mut.Request = &fsmpb.Request{Key: fmt.Sprint("key", batch)}
		apply(t, m, 2, mut)
	}
	kept, items := 0, 0
	m.View().Requests(func(r *fsm.RequestRecord) bool { kept++; items += len(r.Items); return true })
	if kept != 9 {
		t.Errorf("%d requests of %d items are kept, want 9", kept, items)
	}
}
