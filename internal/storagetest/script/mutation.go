package script

import (
	"crypto/sha256"
	"fmt"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// The constructors of mutations that tests share.

// Enqueue enqueues jobs of type t, with a payload of ten bytes or more.
func Enqueue(ids ...string) *fsmpb.Mutation { return EnqueueType("t", ids...) }

// EnqueueType enqueues jobs of a type.
func EnqueueType(typ string, ids ...string) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	for _, id := range ids {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: id, Type: typ, Payload: []byte(`{"id":"` + id + `"}`)})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// EnqueueAt enqueues a job that runs at a time, ms.
func EnqueueAt(at int64, id string) *fsmpb.Mutation {
	m := Enqueue(id)
	m.GetEnqueue().Jobs[0].RunAtMs = at
	return m
}

// Claim claims n jobs.
func Claim(worker string, n uint32, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: worker, Max: n, Types: types}}}
}

// ClaimAs claims n jobs with a request id.
func ClaimAs(worker, request string, n uint32) *fsmpb.Mutation {
	m := Claim(worker, n)
	m.GetClaim().RequestId = request
	return m
}

// Heartbeat extends the lease of one job.
func Heartbeat(worker, id string, token uint64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{
		Worker: worker, Leases: []*fsmpb.Lease{{JobId: id, Token: token}},
	}}}
}

// HeartbeatByName extends leases without their tokens.
func HeartbeatByName(worker string, ids ...string) *fsmpb.Mutation {
	op := &fsmpb.Heartbeat{Worker: worker}
	for _, id := range ids {
		op.Leases = append(op.Leases, &fsmpb.Lease{JobId: id})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: op}}
}

// Complete completes a job with the result 42.
func Complete(worker, id string, token uint64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: worker, Lease: &fsmpb.Lease{JobId: id, Token: token}, Result: []byte("42"),
	}}}
}

// CompleteWithLog completes a job with a log.
func CompleteWithLog(worker, id string, token uint64, log string) *fsmpb.Mutation {
	m := Complete(worker, id, token)
	m.GetComplete().Log = log
	return m
}

// ForceComplete completes a job without a worker.
func ForceComplete(id, result string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: &fsmpb.ForceComplete{
		JobId: id, Result: []byte(result),
	}}}
}

// Fail fails a job.
func Fail(worker, id string, token uint64, reason string, permanent bool) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker: worker, Lease: &fsmpb.Lease{JobId: id, Token: token}, Error: reason, Permanent: permanent,
	}}}
}

// Release returns a job to the queue.
func Release(worker, id string, token uint64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{
		Worker: worker, Lease: &fsmpb.Lease{JobId: id, Token: token},
	}}}
}

// StoreStep stores a step of a job that runs.
func StoreStep(worker, id string, token uint64, name, value string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_StoreStep{StoreStep: &fsmpb.StoreStep{
		Worker: worker, Lease: &fsmpb.Lease{JobId: id, Token: token}, Name: name, Value: []byte(value),
	}}}
}

// Suspend ends an attempt until a time, or a signal that comes before it.
func Suspend(worker, id string, token uint64, until int64, signal string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Suspend{Suspend: &fsmpb.Suspend{
		Worker: worker, Lease: &fsmpb.Lease{JobId: id, Token: token}, UntilMs: until, Signal: signal,
	}}}
}

// SuspendUntilEnd ends an attempt until a batch has ended.
func SuspendUntilEnd(worker, id string, token uint64, batch string) *fsmpb.Mutation {
	m := Suspend(worker, id, token, 0, "")
	m.GetSuspend().Batch = batch
	return m
}

// SendSignal sends a job a signal.
func SendSignal(id, name, signalID, value string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SendSignal{SendSignal: &fsmpb.SendSignal{
		JobId: id, Name: name, Id: signalID, Value: []byte(value),
	}}}
}

// MakeLink allows whoever has a secret to send a job a signal.
func MakeLink(id, signal string, hash []byte, until int64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_MakeLink{MakeLink: &fsmpb.MakeLink{JobId: id, Signal: signal, Hash: hash, UntilMs: until}}}
}

// RetryFlow retries a job and those of its batch that run after it.
func RetryFlow(id string, fresh bool) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RetryFlow{RetryFlow: &fsmpb.RetryFlow{JobId: id, Fresh: fresh}}}
}

// ReserveArtefact reserves an artefact for a job.
func ReserveArtefact(id string, size, until int64, quota *fsmpb.Quota) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: &fsmpb.ReserveArtefact{
		Id: id, Size: size, Sum: make([]byte, sha256.Size), UntilMs: until, Quota: quota,
	}}}
}

// AttachArtefact gives a job that runs an artefact.
func AttachArtefact(worker, job string, token uint64, name, id string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_AttachArtefact{AttachArtefact: &fsmpb.AttachArtefact{
		Worker: worker, Lease: &fsmpb.Lease{JobId: job, Token: token}, Artefact: &fsmpb.NamedArtefact{Name: name, Id: id},
	}}}
}

// DropArtefacts removes the records of artefacts that are released.
func DropArtefacts(ids ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_DropArtefacts{DropArtefacts: &fsmpb.DropArtefacts{Ids: ids}}}
}

// RegisterWorker registers a worker.
func RegisterWorker(name string, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
		Name: name, Types: types, Version: "1.2", Address: "10.0.0.7:9000",
	}}}
}

// SetQuiet makes a worker quiet, or not.
func SetQuiet(name string, quiet bool) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: &fsmpb.SetQuiet{Name: name, Quiet: quiet, By: "ann"}}}
}

// WorkerDead declares a worker dead.
func WorkerDead(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: &fsmpb.WorkerDead{Name: name}}}
}

// RegisterBroker registers the leader.
func RegisterBroker(node string, epoch uint64, s *fsm.Settings) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: node, Address: node + ":8080", Epoch: epoch, Cluster: "c1", Lineage: "l1", Settings: s,
	}}}
}

// RaiseLevel raises the feature level.
func RaiseLevel(level uint32) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RaiseLevel{RaiseLevel: &fsmpb.RaiseLevel{Level: level}}}
}

// Announce announces a condition.
func Announce(kind fsm.AnnounceKind, text string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: &fsmpb.Announce{Kind: uint32(kind), Text: text}}}
}

// CheckState asks for the checksum of the state.
func CheckState() *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_CheckState{CheckState: &fsmpb.CheckState{}}}
}

// StateChecked says the checksum of a state.
func StateChecked(at fsm.LSN, sum [32]byte, diverged ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_StateChecked{StateChecked: &fsmpb.StateChecked{
		Term: at.Term, Index: at.Index, Sum: sum[:], Diverged: diverged,
	}}}
}

// PauseOf pauses a type; p may be nil.
func PauseOf(jobType string, p *fsmpb.Pause) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: jobType, Paused: new(true), Pause: p}}}
}

// PutHook puts a hook.
func PutHook(name string, kinds outbox.Kinds) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: &fsmpb.PutHook{Hook: &fsmpb.Hook{
		Name: name, Url: "https://example.com/", Kinds: uint64(kinds), Secret: []byte("secret"), MadeBy: "admin",
	}}}}
}

// DeleteHook deletes a hook.
func DeleteHook(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteHook{DeleteHook: &fsmpb.DeleteHook{Name: name}}}
}

// TestHook sends a test event to a hook.
func TestHook(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_TestHook{TestHook: &fsmpb.TestHook{Name: name}}}
}

// SetAlert begins or ends an alert.
func SetAlert(hook string, kind outbox.Kind, subject string, firing bool) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetAlert{SetAlert: &fsmpb.SetAlert{
		Hook: hook, Kind: uint32(kind), Subject: subject, Firing: firing, Text: "older than 10m",
	}}}
}

// Reported reports delivered events.
func Reported(hook string, ids ...outbox.EventID) *fsmpb.Mutation {
	op := &fsmpb.ReportHook{Name: hook}
	for _, id := range ids {
		op.Delivered = append(op.Delivered, &fsmpb.HookEventId{Term: id.Term, Index: id.Index, N: id.N})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ReportHook{ReportHook: op}}
}

// CreateToken creates a token.
func CreateToken(id string, role fsm.Role) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: &fsmpb.Token{
		Id: id, Hash: fmt.Appendf(nil, "%032s", id), Role: uint32(role), MadeBy: "admin",
	}}}}
}

// ReplaceToken creates a token in place of another one.
func ReplaceToken(id, old string, overlapMs int64) *fsmpb.Mutation {
	m := CreateToken(id, fsm.RoleReader)
	m.GetCreateToken().Replaces, m.GetCreateToken().OverlapMs = old, overlapMs
	return m
}

// RevokeToken revokes a token.
func RevokeToken(id string, overlapMs int64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: id, OverlapMs: overlapMs}}}
}

// TouchTokens notes the use of tokens.
func TouchTokens(ids ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_TouchTokens{TouchTokens: &fsmpb.TouchTokens{Ids: ids}}}
}

// ChangeOf cancels, retries or deletes jobs.
func ChangeOf(kind fsm.ChangeKind, ids ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(kind), Ids: ids}}}
}

// HeartbeatOf extends the lease that a job has.
func HeartbeatOf(j *fsm.Job) *fsmpb.Mutation {
	return Heartbeat(j.Execution().Worker, j.ID, j.Execution().Token)
}

// CompleteOf completes a job by the worker that has it.
func CompleteOf(j *fsm.Job) *fsmpb.Mutation {
	return Complete(j.Execution().Worker, j.ID, j.Execution().Token)
}
