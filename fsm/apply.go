package fsm

import (
	"strconv"
	"strings"
	"unique"

	"osqueue/fsm/answers"
	"osqueue/fsm/artefacts"
	"osqueue/fsm/btree"
	"osqueue/fsm/figures"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/idtable"
	"osqueue/fsm/outbox"
	"osqueue/fsm/timers"
	"osqueue/fsm/tokens"
	"osqueue/fsm/uniques"
	"osqueue/fsm/usage"
	"osqueue/fsm/waits"
)

// New returns an empty machine.
func New() *Machine {
	m := &Machine{
		meta:      &Meta{Settings: DefaultSettings(), Level: BaseLevel},
		jobs:      btree.New(byStatusSeq),
		workers:   newWorkers(),
		claims:    answers.NewClaims(),
		running:   btree.New(byHolder),
		tagged:    btree.New(byLabel),
		crons:     newCrons(),
		batches:   newBatches(),
		uniques:   uniques.New(),
		requests:  answers.NewRequests(),
		tokens:    tokens.New(),
		figures:   figures.NewTable(),
		hooks:     outbox.New(),
		usage:     usage.New(),
		ids:       idtable.New(func(j *Job) string { return j.ID }),
		timers:    timers.New(),
		waits:     waits.New(),
		sequences: newSequences(),
		max:       budgets{settle: settleMax, fire: fireMax, retire: retireMax, park: parkMax},
	}
	m.types = newTypes(m.meta, m.timers)
	m.artefacts = artefacts.New(func(now, old *Artefact) { m.usage.Keep(usage.OfArtefact(now), usage.OfArtefact(old)) })
	m.entry.Machine = m
	return m
}

// Apply applies the log entry at (index, term): it first advances the time to the batch's
// clock, then applies the mutations in order and returns one result for each. A takeover
// extends all leases before the time advances (see the package documentation). b must
// come from DecodeEntry, which refuses entries that Apply does not know. The machine
// keeps no reference to b.
func (m *Machine) Apply(index, term uint64, b *fsmpb.Batch) []Result {
	e := &m.entry
	e.begin(b)
	m.meta.Term, m.meta.Index = term+m.meta.TermBase, index
	m.extendLeases(b)
	e.advance(b.NowMs)
	results := make([]Result, len(b.Mutations))
	for i, mut := range b.Mutations {
		results[i] = e.once(mut)
	}
	return results
}

// entry applies one log entry. It is a part of the machine, and used again for the next entry.
type entry struct {
	*Machine

	events   []Event
	random   uint64
	budget   int    // waiters that may still be settled
	firings  int    // timers that may still fire
	removals int    // jobs that retention may still remove
	parkings int    // lanes that claims may still move
	actor    string // of the mutation that is being decided
	outcomes []outcome
}

// begin resets the fields of the previous entry.
func (e *entry) begin(b *fsmpb.Batch) {
	e.forgetEvents()
	e.hooks.Begin()
	e.random, e.budget, e.firings, e.removals, e.parkings = b.Random, e.max.settle, e.max.fire, e.max.retire, e.max.park
	for _, q := range e.types.touched {
		q.arrived, q.touched = 0, false
	}
	e.types.touched, e.workers.turned = e.types.touched[:0], e.workers.turned[:0]
}

// eventsKept is the largest capacity of the event slice that the next entry reuses.
const eventsKept = 4096

// forgetEvents releases the jobs in the events of the last entry.
func (e *entry) forgetEvents() {
	if cap(e.events) > eventsKept {
		e.events = nil
		return
	}
	clear(e.events)
	e.events = e.events[:0]
}

// apply applies one mutation of an actor and its consequences.
func (e *entry) apply(mut *fsmpb.Mutation, actor string) Result {
	first := len(e.events)
	if actor != "" {
		actor = unique.Make(actor).Value() // all share one text, which does not keep the entry in memory
	}
	e.actor = actor
	res := e.decide(mut)
	e.actor = ""                              // the machine works consequences out by itself
	if actor != "" && mut.GetGroup() == nil { // group has done it for each part
		for i := first; i < len(e.events); i++ {
			e.events[i].Actor = actor
		}
	}
	e.settle()
	e.retire()
	return res
}

// decide applies one mutation.
func (e *entry) decide(mut *fsmpb.Mutation) Result {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		return e.enqueue(op.Enqueue)
	case *fsmpb.Mutation_Claim:
		return e.claim(op.Claim)
	case *fsmpb.Mutation_Heartbeat:
		return e.heartbeat(op.Heartbeat)
	case *fsmpb.Mutation_Complete:
		return e.complete(op.Complete)
	case *fsmpb.Mutation_Fail:
		return e.fail(op.Fail)
	case *fsmpb.Mutation_Release:
		return e.release(op.Release)
	case *fsmpb.Mutation_ForceComplete:
		return e.forceComplete(op.ForceComplete)
	case *fsmpb.Mutation_RegisterWorker:
		return registry{e}.register(op.RegisterWorker)
	case *fsmpb.Mutation_WorkerDead:
		return registry{e}.dead(op.WorkerDead)
	case *fsmpb.Mutation_SetQuiet:
		return registry{e}.setQuiet(op.SetQuiet)
	case *fsmpb.Mutation_RegisterBroker:
		return e.registerBroker(op.RegisterBroker)
	case *fsmpb.Mutation_Change:
		return e.change(op.Change)
	case *fsmpb.Mutation_EditJob:
		return e.editJob(op.EditJob)
	case *fsmpb.Mutation_SetQueue:
		return e.setQueue(op.SetQueue)
	case *fsmpb.Mutation_SetLimit:
		return limiting{e}.set(op.SetLimit)
	case *fsmpb.Mutation_ThrottleLimit:
		return limiting{e}.throttle(op.ThrottleLimit)
	case *fsmpb.Mutation_StoreStep:
		return steps{e}.store(op.StoreStep)
	case *fsmpb.Mutation_Suspend:
		return steps{e}.suspend(op.Suspend)
	case *fsmpb.Mutation_SendSignal:
		return steps{e}.signal(op.SendSignal)
	case *fsmpb.Mutation_MakeLink:
		return steps{e}.link(op.MakeLink)
	case *fsmpb.Mutation_ReserveArtefact:
		return e.reserve(op.ReserveArtefact)
	case *fsmpb.Mutation_AttachArtefact:
		return steps{e}.attach(op.AttachArtefact)
	case *fsmpb.Mutation_DropArtefacts:
		return Result{Count: e.artefacts.Drop(op.DropArtefacts.Ids)}
	case *fsmpb.Mutation_RetryFlow:
		return flows{e}.retry(op.RetryFlow)
	case *fsmpb.Mutation_Group:
		return e.group(op.Group, mut.Actor)
	case *fsmpb.Mutation_Announce:
		return e.announce(op.Announce)
	case *fsmpb.Mutation_RaiseLevel:
		return e.raiseLevel(op.RaiseLevel)
	case *fsmpb.Mutation_CheckState:
		return Result{} // it concerns the nodes; the state is unchanged
	case *fsmpb.Mutation_StateChecked:
		return e.stateChecked(op.StateChecked)
	}
	return e.decideRare(mut)
}

// decideRare applies a mutation about a schedule, a token or a hook.
func (e *entry) decideRare(mut *fsmpb.Mutation) Result {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_PutCron:
		return schedules{e}.putCron(op.PutCron)
	case *fsmpb.Mutation_PauseCron:
		return schedules{e}.pauseCron(op.PauseCron)
	case *fsmpb.Mutation_DeleteCron:
		return schedules{e}.deleteCron(op.DeleteCron)
	case *fsmpb.Mutation_FireCron:
		return schedules{e}.fireCron(op.FireCron)
	case *fsmpb.Mutation_TriggerCron:
		return schedules{e}.triggerCron(op.TriggerCron)
	case *fsmpb.Mutation_CreateToken:
		return tokenResult(e.tokens.Create(op.CreateToken, e.meta.NowMs))
	case *fsmpb.Mutation_RevokeToken:
		return tokenResult(e.tokens.Revoke(op.RevokeToken, e.meta.NowMs))
	case *fsmpb.Mutation_TouchTokens:
		return Result{Count: e.tokens.Touch(op.TouchTokens, e.meta.NowMs)}
	case *fsmpb.Mutation_PutHook:
		return hookResult(0, e.hooks.Put(op.PutHook, e.meta.NowMs))
	case *fsmpb.Mutation_DeleteHook:
		return hookResult(0, e.hooks.Delete(op.DeleteHook.Name))
	case *fsmpb.Mutation_TestHook:
		return hookResult(e.hooks.Test(op.TestHook.Name, e.stamp()))
	case *fsmpb.Mutation_ReportHook:
		return hookResult(e.hooks.Report(op.ReportHook, e.meta.NowMs))
	case *fsmpb.Mutation_SetAlert:
		return hookResult(0, e.hooks.SetAlert(op.SetAlert, e.stamp()))
	}
	panic("fsm: Apply of a batch that DecodeEntry has not checked")
}

// registerBroker makes a node the active broker. Leases and workers count from now again
// (see LeasesFrom), and tokens continue above the floor of the new epoch.
func (e *entry) registerBroker(op *fsmpb.RegisterBroker) Result {
	if !mayRegister(e.meta, op) {
		return Result{Code: OldEpoch}
	}
	e.meta.BrokerNode, e.meta.BrokerAddress, e.meta.Epoch = strings.Clone(op.Node), strings.Clone(op.Address), op.Epoch
	e.meta.Cluster, e.meta.Lineage = strings.Clone(op.Cluster), strings.Clone(op.Lineage)
	e.meta.Adopted = "" // this cluster has written the document since
	e.meta.LeasesFromMs = max(e.meta.LeasesFromMs, e.meta.NowMs)
	e.meta.LastToken = max(e.meta.LastToken, tokenFloor(op.Epoch))
	if op.Settings != nil {
		e.meta.Settings = fsmpb.Clone(op.Settings)
	}
	e.retimeWorkers()
	e.types.reviewRetention()
	e.requests.Bound(e.meta.Settings.RequestCount)
	e.events = append(e.events, Event{Kind: BrokerRegistered, Name: e.meta.BrokerNode})
	e.tell(outbox.News(outbox.Leader, e.meta.BrokerNode, "epoch "+strconv.FormatUint(e.meta.Epoch, 10)))
	return Result{}
}

// mayRegister reports whether a broker may register: its epoch is not old, and no other
// node has the same epoch.
func mayRegister(b *Meta, op *fsmpb.RegisterBroker) bool {
	return op.Epoch > b.Epoch || (op.Epoch == b.Epoch && op.Node == b.BrokerNode)
}

// extendLeases sets LeasesFrom if b begins with a takeover, before the time without a
// leader can end a lease or a worker. It changes no lease and no worker: their timers
// move when they come up.
func (m *Machine) extendLeases(b *fsmpb.Batch) {
	if len(b.Mutations) == 0 {
		return
	}
	op := b.Mutations[0].GetRegisterBroker()
	if op != nil && mayRegister(m.meta, op) {
		m.meta.LeasesFromMs = max(m.meta.LeasesFromMs, m.meta.NowMs, b.NowMs)
	}
}

// announce makes an event about the active broker, so that all nodes have it at the same
// place among the other events. It changes Meta.Announced and the outboxes of hooks.
func (e *entry) announce(op *fsmpb.Announce) Result {
	e.events = append(e.events, Event{
		Kind: announced[op.Kind], Name: e.meta.BrokerNode, Text: strings.Clone(cut(op.Text, announceMax)),
	})
	noteAnnounced(e.meta, AnnounceKind(op.Kind))
	e.tell(announcedEvent(AnnounceKind(op.Kind), e.meta.BrokerNode, op.Text))
	return Result{}
}

// raiseLevel raises the feature level. A level at or below the present one changes
// nothing.
func (m *Machine) raiseLevel(op *fsmpb.RaiseLevel) Result {
	if op.Level <= m.meta.Level {
		return Result{Code: Duplicate}
	}
	m.meta.Level = op.Level
	return Result{}
}
