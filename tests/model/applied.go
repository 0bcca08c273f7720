package model

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/tests/history"
)

// stateEvery is how many indexes of the log lie between two hashes of a replay, so
// that any two nodes' replays can be compared.
const stateEvery = 256

// Where a history.State comes from.
const (
	FromLog      = "log"
	FromSnapshot = "snapshot"
)

// Applied replays a node's log and notes what each mutation did, and what time did
// between them. It hashes the machine at the LSNs given, which are those of the
// documents and of other nodes' snapshots, at every 256th index, and at the end.
//
// A log may end with entries that were never committed. So take logs of nodes that
// were stopped after everything was healed.
func Applied(node string, log Log, at ...fsm.LSN) ([]history.Applied, []history.State, error) {
	m, err := log.machine()
	if err != nil {
		return nil, nil, err
	}
	r := &replay{node: node, m: m, at: make(map[fsm.LSN]bool)}
	for _, lsn := range at {
		r.at[lsn] = true
	}
	if log.Snapshot != nil {
		r.snapshot()
		r.hash(FromSnapshot)
	}
	for i, e := range log.Entries {
		batch, err := fsm.DecodeEntry(e.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("log entry %d of %s: %w", e.Index, node, err)
		}
		r.entry(e, batch)
		if r.at[m.LSN()] || e.Index%stateEvery == 0 || i == len(log.Entries)-1 {
			r.hash(FromLog)
		}
	}
	return r.lines, r.states, nil
}

// SnapshotState is the state that a node's snapshot file has.
func SnapshotState(node string, file []byte) (history.State, error) {
	if len(file) == 0 {
		return history.State{}, errors.New("the snapshot is empty")
	}
	m, err := Log{Snapshot: file}.machine()
	if err != nil {
		return history.State{}, err
	}
	r := &replay{node: node, m: m}
	r.hash(FromSnapshot)
	return r.states[0], nil
}

// Versions are the document's versions as lines of a history, numbered from 1.
// Replay of each is the hash that the replayed states have at its LSN; "" if they have
// none. That nodes agree about an LSN is checked elsewhere (agree).
func Versions(states []State, replayed []history.State) []history.Document {
	at := make(map[fsm.LSN]string)
	for _, s := range replayed {
		if s.Source == FromLog {
			at[s.LSN.LSN] = s.Hash
		}
	}
	docs := make([]history.Document, len(states))
	for i, s := range states {
		h := s.Header
		docs[i] = history.Document{
			Version: i + 1, LSN: history.LSN{LSN: h.LSN()}, Epoch: h.Epoch, Node: h.Node, Cluster: h.Cluster,
			Lineage: h.Lineage, Hash: hex.EncodeToString(s.Hash[:]), Replay: at[h.LSN()],
		}
	}
	return docs
}

// replay is one replay of a log.
type replay struct {
	node   string
	m      *fsm.Machine
	at     map[fsm.LSN]bool
	lines  []history.Applied
	late   map[string]history.Item // jobs that the entry has added and expired, as they are then
	states []history.State
}

func (r *replay) hash(source string) {
	h := r.m.View().Hash()
	r.states = append(r.states, history.State{
		Node: r.node, Source: source, LSN: history.LSN{LSN: r.m.LSN()}, Hash: hex.EncodeToString(h[:]),
	})
}

// line returns the fields that all lines of the entry just applied share.
func (r *replay) line(kind history.Kind) history.Applied {
	meta := r.m.Meta()
	return history.Applied{Node: r.node, LSN: history.LSN{LSN: meta.LSN()}, Now: meta.NowMs, Kind: kind, Code: fsm.OK.String()}
}

func (r *replay) snapshot() {
	l := r.line(history.Snapshot)
	var all []fsm.Status
	for s := fsm.Scheduled; s.String() != ""; s++ {
		all = append(all, s)
	}
	r.m.View().List(fsm.Index{}, all, 0, func(j *fsm.Job) bool {
		l.Jobs = append(l.Jobs, item(j))
		return true
	})
	r.m.View().Limits(func(x *fsm.Limit) bool {
		l.Limits = append(l.Limits, history.LimitState{
			Name: x.Name, Rule: ruleOf(x.GetRule()), Level: x.Level, At: x.LevelAtMs, Until: x.HeldUntilMs,
		})
		return true
	})
	l.Aging = make(map[string]int64)
	r.m.View().Queues(func(q *fsm.QueueSettings) bool {
		l.Aging[q.Name] = q.AgingMs
		return true
	})
	r.lines = append(r.lines, l)
}

// entry applies an entry. A takeover comes before time advances.
func (r *replay) entry(e Entry, b *fsmpb.Batch) {
	results := r.m.Apply(e.Index, e.Term, b)
	r.late = r.addedLate()
	passed := r.passed()
	first := len(b.Mutations) > 0 && b.Mutations[0].GetRegisterBroker() != nil && results[0].Code.Done()
	if passed != nil && !first {
		r.lines = append(r.lines, *passed)
	}
	for i, mut := range b.Mutations {
		r.mutation(mut, &results[i])
		if i == 0 && first && passed != nil {
			r.lines = append(r.lines, *passed)
		}
	}
	if l := r.line(history.Passed); r.settled(&l) {
		r.lines = append(r.lines, l)
	}
}

// settled notes the jobs that wait for nothing more at the end of the entry just applied.
func (r *replay) settled(l *history.Applied) bool {
	last := make(map[string]*fsm.Event)
	for _, e := range r.m.Events() {
		if e.Job != nil && e.Kind == fsm.JobChanged {
			last[e.Job.ID] = &e
		}
	}
	for _, id := range sortedKeys(last) {
		if e := last[id]; e.From == fsm.Blocked && !e.Job.Status.Ended() {
			it := item(e.Job)
			it.From = e.From.String()
			l.Jobs = append(l.Jobs, it)
		}
	}
	return len(l.Jobs) > 0
}

// passed returns the effect of time in the entry just applied, nil if there is none.
func (r *replay) passed() *history.Applied {
	l := r.line(history.Passed)
	for _, e := range r.m.Events() {
		if e.Job == nil || !byTime(&e) || r.late[e.Job.ID].Job != "" && e.Job.Status == fsm.Expired {
			continue
		}
		it := item(e.Job)
		it.From = e.From.String()
		if e.Removed {
			it.Status = Gone
		}
		l.Jobs = append(l.Jobs, it)
	}
	if len(l.Jobs) == 0 {
		return nil
	}
	return &l
}

// addedLate has the jobs that the entry just applied has added after their start-before.
func (r *replay) addedLate() map[string]history.Item {
	added, late := make(map[string]bool), make(map[string]history.Item)
	for _, e := range r.m.Events() {
		switch {
		case e.Kind != fsm.JobChanged || e.Job == nil:
		case e.From == 0:
			added[e.Job.ID] = true
		case e.Job.Status == fsm.Expired && added[e.Job.ID]:
			it := item(e.Job)
			it.From = e.From.String()
			late[e.Job.ID] = it
		}
	}
	return late
}

// add adds the line of a mutation. A job that it has added expires before a later mutation can start it.
func (r *replay) add(l history.Applied) {
	r.lines = append(r.lines, l)
	over := r.line(history.Passed)
	for _, it := range l.Jobs {
		if late, is := r.late[it.Job]; is && l.Kind == history.Enqueue && it.Code == okCode {
			over.Jobs = append(over.Jobs, late)
		}
	}
	if len(over.Jobs) > 0 {
		r.lines = append(r.lines, over)
	}
}

// Gone is the status of a job that has left the state.
const Gone = "gone"

// byTime reports whether an event is an effect of time and not of a mutation.
func byTime(e *fsm.Event) bool {
	switch {
	case e.Kind == fsm.JobRemoved:
		return true
	case e.Kind != fsm.JobChanged:
		return false
	case e.From == fsm.InProgress:
		return e.Job.AttemptEnd == fsm.EndLease || e.Job.AttemptEnd == fsm.EndTimeout
	}
	return e.Job.Status == fsm.Expired || e.From == fsm.Scheduled && e.Job.Status == fsm.Unclaimed
}

// mutation notes what one mutation did, and each one of a group for itself.
func (r *replay) mutation(mut *fsmpb.Mutation, res *fsm.Result) {
	group := mut.GetGroup()
	if group == nil {
		r.add(r.describe(mut, res))
		return
	}
	for i, part := range group.Mutations {
		one := fsm.Result{Code: res.Code, LSN: res.LSN}
		if i < len(res.Codes) {
			one.Code = res.Codes[i]
		}
		if i < len(res.Jobs) && res.Jobs[i] != nil {
			one.Jobs = res.Jobs[i : i+1]
		}
		l := r.describe(part, &one)
		l.Request = mut.GetRequest().GetKey()
		r.add(l)
	}
}

func (r *replay) describe(mut *fsmpb.Mutation, res *fsm.Result) history.Applied {
	kind, worker := named(mut)
	l := r.line(kind)
	l.Worker, l.Request, l.Code = worker, mut.GetRequest().GetKey(), res.Code.String()
	if c := mut.GetClaim(); c != nil && l.Request == "" {
		l.Request = c.RequestId
	}
	if b := mut.GetRegisterBroker(); b != nil {
		l.Epoch, l.Worker = b.Epoch, b.Node
	}
	if s := mut.GetSetLimit(); s != nil {
		l.Limit, l.Rule = s.Pattern, ruleOf(s.Rule)
	}
	l.Until = mut.GetSuspend().GetUntilMs()
	if t := mut.GetThrottleLimit(); t != nil {
		l.Limit, l.Until = t.Key, t.UntilMs
	}
	planned(&l, mut)
	// The jobs are then as in the first answer, not as they are; or an artefact stands in their place.
	repeated := !res.LSN.IsZero() || mut.GetReserveArtefact() != nil
	for i, j := range res.Jobs {
		if j == nil || repeated {
			continue
		}
		it := item(j)
		if i < len(res.Codes) {
			it.Code = res.Codes[i].String()
		}
		l.Jobs = append(l.Jobs, it)
	}
	if len(l.Jobs) == 0 {
		l.Jobs = missing(mut)
	}
	l.Jobs = slices.Clip(l.Jobs)
	return l
}

// planned notes what a mutation says of schedules and of ageing.
func planned(l *history.Applied, mut *fsmpb.Mutation) {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_PutCron:
		l.Schedule, l.Spec, l.All = op.PutCron.Name, op.PutCron.Spec, fsm.MissedPolicy(op.PutCron.Missed) == fsm.MissedAll
	case *fsmpb.Mutation_DeleteCron:
		l.Schedule = op.DeleteCron.Name
	case *fsmpb.Mutation_FireCron:
		l.Schedule, l.Due, l.At, l.Missed = op.FireCron.Name, op.FireCron.DueMs, op.FireCron.AtMs, op.FireCron.Missed
	case *fsmpb.Mutation_SetQueue:
		if ms := op.SetQueue.AgingMs; ms != nil || op.SetQueue.Remove {
			l.Aging = map[string]int64{op.SetQueue.Name: max(op.SetQueue.GetAgingMs(), 0)}
		}
	}
}

// missing names the job of a report about one that is not there.
func missing(mut *fsmpb.Mutation) []history.Item {
	for _, l := range []*fsmpb.Lease{mut.GetComplete().GetLease(), mut.GetFail().GetLease(), mut.GetRelease().GetLease(), mut.GetSuspend().GetLease()} {
		if l != nil {
			return []history.Item{{Job: l.JobId, Token: l.Token}}
		}
	}
	return nil
}

// named is the kind of a mutation, and the worker that sent it.
func named(mut *fsmpb.Mutation) (history.Kind, string) {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		return history.Enqueue, ""
	case *fsmpb.Mutation_Claim:
		return history.Claim, op.Claim.Worker
	case *fsmpb.Mutation_Heartbeat:
		return history.Heartbeat, op.Heartbeat.Worker
	case *fsmpb.Mutation_Complete:
		return history.Complete, op.Complete.Worker
	case *fsmpb.Mutation_Fail:
		return history.Fail, op.Fail.Worker
	case *fsmpb.Mutation_Release:
		return history.Release, op.Release.Worker
	case *fsmpb.Mutation_Suspend:
		return history.Release, op.Suspend.Worker
	case *fsmpb.Mutation_StoreStep:
		return history.Step, op.StoreStep.Worker
	case *fsmpb.Mutation_AttachArtefact:
		return history.Attach, op.AttachArtefact.Worker
	case *fsmpb.Mutation_SendSignal:
		return history.Signal, ""
	case *fsmpb.Mutation_RegisterBroker:
		return history.Broker, ""
	case *fsmpb.Mutation_Change:
		if fsm.ChangeKind(op.Change.Kind) == fsm.CancelJobs {
			return history.Cancel, ""
		}
	case *fsmpb.Mutation_EditJob:
		return history.Edit, ""
	case *fsmpb.Mutation_SetLimit:
		return history.SetLimit, ""
	case *fsmpb.Mutation_SetQueue:
		return history.SetType, ""
	case *fsmpb.Mutation_PutCron, *fsmpb.Mutation_DeleteCron:
		return history.Schedule, ""
	case *fsmpb.Mutation_FireCron:
		return history.Fire, ""
	case *fsmpb.Mutation_ThrottleLimit:
		return history.Throttle, op.ThrottleLimit.Worker
	}
	return history.Other, ""
}

func ruleOf(r *fsm.LimitRule) *history.Rule {
	if r == nil {
		return nil
	}
	return &history.Rule{Running: r.Running, RateMilli: r.RateMilli, Burst: r.Burst}
}

func item(j *fsm.Job) history.Item {
	it := history.Item{
		Job: j.ID, Status: j.Status.String(), Token: j.Execution().Token, Attempts: int(j.Attempts), Confirm: j.Execution().Unconfirmed, Type: j.Type,
		Priority: j.Priority, End: j.AttemptEnd.String(), Result: string(j.Execution().Result),
		Limits: strings.Join(j.Options().Limits, ","), Sequence: j.Options().Sequence, Before: max(j.Options().StartBefore, 0),
	}
	if name := j.Options().Cron; name != "" {
		it.Scheduled = history.Scheduled{Schedule: name, At: scheduledAt(j)}
	}
	if j.Status == fsm.Unclaimed {
		it.Since = max(j.CreatedAt, j.RunAt)
	}
	if it.Sequence != "" {
		it.Seq = j.Seq
	}
	if j.Status == fsm.InProgress {
		it.Lease = history.Time(j.Execution().HeldMs) * history.Millisecond
	}
	return it
}

// scheduledAt is the time of its schedule for which a job was enqueued.
func scheduledAt(j *fsm.Job) int64 {
	for _, h := range j.Options().Headers {
		if h.Name == fsm.ScheduledHeader {
			at, _ := strconv.ParseInt(h.Value, 10, 64)
			return at
		}
	}
	return 0
}
