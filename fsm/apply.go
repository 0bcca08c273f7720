package fsm

import (
	"strconv"
	"strings"
	"unique"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/idtable"
	"osqueue/fsm/outbox"
)

// New returns an empty machine.
func New() *Machine {
	m := &Machine{
		meta:     Meta{Settings: DefaultSettings(), Level: BaseLevel},
		jobs:     btree.New(byStatusSeq),
		workers:  newWorkers(),
		claims:   newClaims(),
		running:  btree.New(byHolder),
		tagged:   btree.New(byLabel),
		crons:    newCrons(),
		batches:  newBatches(),
		uniques:  newUniques(),
		requests: newRequests(),
		tokens:   newTokens(),
		figures:  newFigureTable(),
		hooks:    outbox.New(),
		usage:    usage{accounts: make(map[string]*account)},
		ids:      idtable.New(func(j *Job) string { return j.ID }),
		timers:   timers{btree.New(byTime)},
		waits:    newWaits(),
		max:      budgets{settle: settleMax, fire: fireMax, retire: retireMax},
	}
	m.types = newTypes(&m.meta, m.timers)
	return m
}

// Apply applies the log entry at (index, term): it first advances the time to the batch's
// clock, then applies the mutations in order and returns one result for each. A takeover
// extends all leases before the time advances (see the package documentation). b must
// come from DecodeEntry, which refuses entries that Apply does not know. The machine
// keeps no reference to b.
func (m *Machine) Apply(index, term uint64, b *fsmpb.Batch) []Result {
	m.begin(b)
	m.meta.LSN = LSN{Term: term + m.meta.TermBase, Index: index}
	m.extendLeases(b)
	m.advance(b.NowMs)
	results := make([]Result, len(b.Mutations))
	for i, mut := range b.Mutations {
		results[i] = m.once(mut)
	}
	return results
}

// begin resets the fields of the previous entry.
func (m *Machine) begin(b *fsmpb.Batch) {
	m.forgetEvents()
	m.hooks.Begin()
	m.random, m.budget, m.firings, m.removals = b.Random, m.max.settle, m.max.fire, m.max.retire
	for _, q := range m.types.touched {
		q.arrived, q.touched = 0, false
	}
	m.types.touched, m.workers.turned = m.types.touched[:0], m.workers.turned[:0]
}

// apply applies one mutation of an actor and its consequences.
func (m *Machine) apply(mut *fsmpb.Mutation, actor string) Result {
	first := len(m.events)
	if actor != "" {
		actor = unique.Make(actor).Value() // all share one text, which does not keep the entry in memory
	}
	m.actor = actor
	res := m.decide(mut)
	m.actor = ""               // the machine works consequences out by itself
	if mut.GetGroup() == nil { // group has done it for each part
		m.attribute(first, actor)
	}
	m.settle()
	m.retire()
	return res
}

// attribute sets the actor of the events from the first one on.
func (m *Machine) attribute(first int, actor string) {
	if actor == "" {
		return
	}
	for i := first; i < len(m.events); i++ {
		m.events[i].Actor = actor
	}
}

// decide applies one mutation.
func (m *Machine) decide(mut *fsmpb.Mutation) Result {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		return m.enqueue(op.Enqueue)
	case *fsmpb.Mutation_Claim:
		return m.claim(op.Claim)
	case *fsmpb.Mutation_Heartbeat:
		return m.heartbeat(op.Heartbeat)
	case *fsmpb.Mutation_Complete:
		return m.complete(op.Complete)
	case *fsmpb.Mutation_Fail:
		return m.fail(op.Fail)
	case *fsmpb.Mutation_Release:
		return m.release(op.Release)
	case *fsmpb.Mutation_ForceComplete:
		return m.forceComplete(op.ForceComplete)
	case *fsmpb.Mutation_RegisterWorker:
		return m.registerWorker(op.RegisterWorker)
	case *fsmpb.Mutation_WorkerDead:
		return m.workerDead(op.WorkerDead)
	case *fsmpb.Mutation_SetQuiet:
		return m.setQuiet(op.SetQuiet)
	case *fsmpb.Mutation_RegisterBroker:
		return m.registerBroker(op.RegisterBroker)
	case *fsmpb.Mutation_Change:
		return m.change(op.Change)
	case *fsmpb.Mutation_SetQueue:
		return m.setQueue(op.SetQueue)
	case *fsmpb.Mutation_Group:
		return m.group(op.Group, mut.Actor)
	case *fsmpb.Mutation_Announce:
		return m.announce(op.Announce)
	case *fsmpb.Mutation_RaiseLevel:
		return m.raiseLevel(op.RaiseLevel)
	case *fsmpb.Mutation_CheckState:
		return Result{} // it concerns the nodes; the state is unchanged
	case *fsmpb.Mutation_StateChecked:
		return m.stateChecked(op.StateChecked)
	}
	return m.decideRare(mut)
}

// decideRare applies a mutation about a schedule, a token or a hook.
func (m *Machine) decideRare(mut *fsmpb.Mutation) Result {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_PutCron:
		return m.putCron(op.PutCron)
	case *fsmpb.Mutation_PauseCron:
		return m.pauseCron(op.PauseCron)
	case *fsmpb.Mutation_DeleteCron:
		return m.deleteCron(op.DeleteCron)
	case *fsmpb.Mutation_FireCron:
		return m.fireCron(op.FireCron)
	case *fsmpb.Mutation_TriggerCron:
		return m.triggerCron(op.TriggerCron)
	case *fsmpb.Mutation_CreateToken:
		return Result{Code: m.tokens.create(op.CreateToken, m.meta.Now)}
	case *fsmpb.Mutation_RevokeToken:
		return Result{Code: m.tokens.revoke(op.RevokeToken, m.meta.Now)}
	case *fsmpb.Mutation_TouchTokens:
		return Result{Count: m.tokens.touch(op.TouchTokens, m.meta.Now)}
	case *fsmpb.Mutation_PutHook:
		return hookResult(0, m.hooks.Put(op.PutHook, m.meta.Now))
	case *fsmpb.Mutation_DeleteHook:
		return hookResult(0, m.hooks.Delete(op.DeleteHook.Name))
	case *fsmpb.Mutation_TestHook:
		return hookResult(m.hooks.Test(op.TestHook.Name, m.stamp()))
	case *fsmpb.Mutation_ReportHook:
		return hookResult(m.hooks.Report(op.ReportHook, m.meta.Now))
	case *fsmpb.Mutation_SetAlert:
		return hookResult(0, m.hooks.SetAlert(op.SetAlert, m.stamp()))
	}
	panic("fsm: Apply of a batch that DecodeEntry has not checked")
}

// registerBroker makes a node the active broker. Leases and workers count from now again
// (see LeasesFrom), and tokens continue above the floor of the new epoch.
func (m *Machine) registerBroker(op *fsmpb.RegisterBroker) Result {
	if !m.mayRegister(op) {
		return Result{Code: OldEpoch}
	}
	m.meta.Broker = Broker{Node: strings.Clone(op.Node), Address: strings.Clone(op.Address), Epoch: op.Epoch}
	m.meta.Cluster, m.meta.Lineage = strings.Clone(op.Cluster), strings.Clone(op.Lineage)
	m.meta.Adopted = "" // this cluster has written the document since
	m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now)
	m.meta.Token = max(m.meta.Token, tokenFloor(op.Epoch))
	if op.Settings != nil {
		m.meta.Settings = settingsFromPB(op.Settings)
	}
	m.retimeWorkers()
	m.types.reviewRetention()
	m.requests.bound(m.meta.Settings.RequestCount)
	m.events = append(m.events, Event{Kind: BrokerRegistered, Name: m.meta.Broker.Node})
	m.tell(outbox.Event{Kind: outbox.Leader, Subject: m.meta.Broker.Node, Text: "epoch " + strconv.FormatUint(m.meta.Broker.Epoch, 10)})
	return Result{}
}

// mayRegister reports whether a broker may register: its epoch is not old, and no other
// node has the same epoch.
func (m *Machine) mayRegister(op *fsmpb.RegisterBroker) bool {
	b := &m.meta.Broker
	return op.Epoch > b.Epoch || (op.Epoch == b.Epoch && op.Node == b.Node)
}

// extendLeases sets LeasesFrom if b begins with a takeover, before the time without a
// leader can end a lease or a worker. It changes no lease and no worker: their timers
// move when they come up.
func (m *Machine) extendLeases(b *fsmpb.Batch) {
	if len(b.Mutations) == 0 {
		return
	}
	op := b.Mutations[0].GetRegisterBroker()
	if op != nil && m.mayRegister(op) {
		m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now, b.NowMs)
	}
}

// announce makes an event about the active broker, so that all nodes have it at the same
// place among the other events. It changes Meta.Announced and the outboxes of hooks.
func (m *Machine) announce(op *fsmpb.Announce) Result {
	m.events = append(m.events, Event{
		Kind: announced[op.Kind], Name: m.meta.Broker.Node, Text: strings.Clone(cut(op.Text, announceMax)),
	})
	m.meta.noteAnnounced(AnnounceKind(op.Kind))
	m.tell(announcedEvent(AnnounceKind(op.Kind), m.meta.Broker.Node, op.Text))
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
