package fsm_test

import (
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// apply runs mutations through the log's encoding, as a node does, at the next
// index.
func apply(t rapid.TB, m *fsm.Machine, now int64, muts ...*fsmpb.Mutation) []fsm.Result {
	t.Helper()
	return m.Apply(m.Meta().LSN.Index+1, 1, decode(t, entry(t, &fsmpb.Batch{NowMs: now, Mutations: muts})))
}

func enqueue(ids ...string) *fsmpb.Mutation { return enqueueType("t", ids...) }

func enqueueType(typ string, ids ...string) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	for _, id := range ids {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: id, Type: typ, Payload: []byte(`{"id":"` + id + `"}`)})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

func enqueueAt(at int64, id string) *fsmpb.Mutation {
	m := enqueue(id)
	m.GetEnqueue().Jobs[0].RunAtMs = at
	return m
}

func claim(worker string, n uint32, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: worker, Max: n, Types: types}}}
}

func claimAs(worker, request string, n uint32) *fsmpb.Mutation {
	m := claim(worker, n)
	m.GetClaim().RequestId = request
	return m
}

func heartbeat(worker, id string, token uint64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{
		Worker: worker, Leases: []*fsmpb.Lease{{JobId: id, Token: token}},
	}}}
}

func heartbeatByName(worker string, ids ...string) *fsmpb.Mutation {
	op := &fsmpb.Heartbeat{Worker: worker}
	for _, id := range ids {
		op.Leases = append(op.Leases, &fsmpb.Lease{JobId: id})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: op}}
}

func complete(worker, id string, token uint64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: worker, Lease: &fsmpb.Lease{JobId: id, Token: token}, Result: []byte("42"),
	}}}
}

func completeWithLog(worker, id string, token uint64, log string) *fsmpb.Mutation {
	m := complete(worker, id, token)
	m.GetComplete().Log = log
	return m
}

func forceComplete(id, result string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: &fsmpb.ForceComplete{
		JobId: id, Result: []byte(result),
	}}}
}

func fail(worker, id string, token uint64, reason string, permanent bool) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker: worker, Lease: &fsmpb.Lease{JobId: id, Token: token}, Error: reason, Permanent: permanent,
	}}}
}

func release(worker, id string, token uint64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{
		Worker: worker, Lease: &fsmpb.Lease{JobId: id, Token: token},
	}}}
}

func registerWorker(name string, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
		Name: name, Types: types, Version: "1.2", Address: "10.0.0.7:9000",
	}}}
}

func setQuiet(name string, quiet bool) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: &fsmpb.SetQuiet{Name: name, Quiet: quiet, By: "ann"}}}
}

func workerDead(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: &fsmpb.WorkerDead{Name: name}}}
}

func registerBroker(node string, epoch uint64, s fsm.Settings) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: node, Address: node + ":8080", Epoch: epoch, Cluster: "c1", Lineage: "l1", Settings: s.ToPB(),
	}}}
}

func raiseLevel(level uint32) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RaiseLevel{RaiseLevel: &fsmpb.RaiseLevel{Level: level}}}
}

func announce(kind fsm.AnnounceKind, text string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: &fsmpb.Announce{Kind: uint32(kind), Text: text}}}
}

func checkState() *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_CheckState{CheckState: &fsmpb.CheckState{}}}
}

func stateChecked(at fsm.LSN, sum [32]byte, diverged ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_StateChecked{StateChecked: &fsmpb.StateChecked{
		Term: at.Term, Index: at.Index, Sum: sum[:], Diverged: diverged,
	}}}
}
