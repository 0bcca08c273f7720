package fsm_test

import (
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/script"
)

var (
	enqueue, enqueueType, enqueueAt                     = script.Enqueue, script.EnqueueType, script.EnqueueAt
	claim, claimAs                                      = script.Claim, script.ClaimAs
	heartbeat, heartbeatByName                          = script.Heartbeat, script.HeartbeatByName
	complete, completeWithLog, forceComplete            = script.Complete, script.CompleteWithLog, script.ForceComplete
	fail, release                                       = script.Fail, script.Release
	storeStep, suspend, suspendUntilEnd                 = script.StoreStep, script.Suspend, script.SuspendUntilEnd
	sendSignal, makeLink, retryFlow                     = script.SendSignal, script.MakeLink, script.RetryFlow
	reserveArtefact, attachArtefact, dropArtefacts      = script.ReserveArtefact, script.AttachArtefact, script.DropArtefacts
	registerWorker, setQuiet, workerDead                = script.RegisterWorker, script.SetQuiet, script.WorkerDead
	registerBroker, raiseLevel                          = script.RegisterBroker, script.RaiseLevel
	announce, checkState, stateChecked                  = script.Announce, script.CheckState, script.StateChecked
	pauseOf, changeOf                                   = script.PauseOf, script.ChangeOf
	putHook, deleteHook, testHook, setAlert, reported   = script.PutHook, script.DeleteHook, script.TestHook, script.SetAlert, script.Reported
	createToken, replaceToken, revokeToken, touchTokens = script.CreateToken, script.ReplaceToken, script.RevokeToken, script.TouchTokens
)

// apply runs mutations through the log's encoding, as a node does, at the next
// index.
func apply(t rapid.TB, m *fsm.Machine, now int64, muts ...*fsmpb.Mutation) []fsm.Result {
	t.Helper()
	return m.Apply(m.LSN().Index+1, 1, decode(t, entry(t, &fsmpb.Batch{NowMs: now, Mutations: muts})))
}
