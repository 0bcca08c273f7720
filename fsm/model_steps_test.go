package fsm_test

import (
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Bounds of what a job keeps over its attempts.
const (
	stepsMax     = 1000
	signalsMax   = 100
	linksMax     = 16
	keptBytesMax = 1 << 20
	flowMax      = 10_000
)

// keptBytes has the bytes of the steps and signals of a job.
func keptBytes(j *fsm.Job) (n int64) {
	for _, s := range j.Details().Steps {
		n += int64(len(s.Name) + len(s.Value))
	}
	for _, s := range j.Details().Signals {
		n += int64(len(s.Name) + len(s.Value) + len(s.Id))
	}
	return n
}

func (m *model) storeStep(op *fsmpb.StoreStep) fsm.Result {
	m.seen(op.Worker)
	j := m.job(op.Lease.JobId)
	code := verdict(j, op.Worker, op.Owner, op.Lease.Token, fsm.NoEnd)
	if j == nil {
		return fsm.Result{Code: code}
	}
	steps, more := j.Details().Steps, int64(len(op.Name)+len(op.Value))
	switch {
	case code != fsm.OK:
	case slices.ContainsFunc(steps, func(s *fsmpb.Step) bool { return s.Name == op.Name }):
		code = fsm.Duplicate
	case len(steps) == stepsMax || keptBytes(j)+more > keptBytesMax:
		code = fsm.TooManySteps
	default:
		j = m.change(j, func(j *fsm.Job) {
			details(j, func(d *fsm.Details) { d.Steps = append(d.Steps, &fsmpb.Step{Name: op.Name, Value: op.Value}) })
		})
	}
	return fsm.Result{Code: code, Jobs: []*fsm.Job{j}}
}

// hasSignal is whether a job was sent a signal of that name.
func hasSignal(j *fsm.Job, name string) bool {
	return slices.ContainsFunc(j.Details().Signals, func(s *fsmpb.Signal) bool { return s.Name == name })
}

func (m *model) suspend(op *fsmpb.Suspend) fsm.Result {
	batch := m.batch(op.Batch)
	if j := m.job(op.Lease.JobId); op.Batch != "" && batch == nil && verdict(j, op.Worker, op.Owner, op.Lease.Token, fsm.EndSuspended) == fsm.OK {
		m.seen(op.Worker)
		return fsm.Result{Code: fsm.NoSuchBatch, Jobs: []*fsm.Job{j}}
	}
	return m.report(op.Worker, op.Owner, op.Lease, fsm.EndSuspended, func(j *fsm.Job) {
		j.Attempts = max(j.Attempts-1, 0)
		if j.Details().CancelAt != 0 {
			m.finish(j, fsm.Cancelled, fsm.EndSuspended)
			j.Exec.LastError = ""
			m.did = append(m.did, "a suspension cancels")
			return
		}
		m.back(j, fsm.EndSuspended, 0)
		switch {
		case op.Batch != "" && batch.EndedAtMs == 0:
			j.Status = fsm.Blocked
			details(j, func(d *fsm.Details) { d.Waits = []string{endMark + op.Batch} })
			m.did = append(m.did, "a job waits for the end of a batch")
		case op.Batch != "":
			m.did = append(m.did, "a job does not wait for a batch that has ended")
		case hasSignal(j, op.Signal):
			m.did = append(m.did, "a job does not wait for a signal that it has")
		case op.UntilMs > m.meta.NowMs:
			j.Status, j.RunAt = fsm.Scheduled, op.UntilMs
			details(j, func(d *fsm.Details) { d.Awaits = op.Signal })
			m.did = append(m.did, "a job waits for a time")
		}
	})
}

func (m *model) sendSignal(op *fsmpb.SendSignal) fsm.Result {
	old := m.job(op.JobId)
	if old == nil || op.Seq != 0 && op.Seq != old.Seq {
		return fsm.Result{Code: fsm.NotFound}
	}
	answer := func(code fsm.Code, j *fsm.Job) fsm.Result { return fsm.Result{Code: code, Jobs: []*fsm.Job{j}} }
	d, used := old.Details(), -1
	for _, s := range d.Signals {
		if op.Id != "" && s.Id == op.Id {
			return answer(fsm.Duplicate, old)
		}
	}
	if len(op.Link) > 0 {
		used = slices.IndexFunc(d.Links, func(l *fsmpb.SignalLink) bool {
			return string(l.Hash) == string(op.Link) && l.Signal == op.Name && l.UntilMs > m.meta.NowMs
		})
		if used < 0 {
			return answer(fsm.NotFound, old)
		}
		m.did = append(m.did, "a signal comes by a link")
	}
	more := int64(len(op.Name) + len(op.Value) + len(op.Id))
	switch {
	case hasEnded(old.Status):
		return answer(fsm.WrongStatus, old)
	case len(d.Signals) == signalsMax || keptBytes(old)+more > keptBytesMax:
		return answer(fsm.TooManySteps, old)
	}
	wakes := old.Status == fsm.Scheduled && d.Awaits == op.Name
	j := m.change(old, func(j *fsm.Job) {
		details(j, func(d *fsm.Details) {
			d.Signals = append(d.Signals, &fsmpb.Signal{Name: op.Name, Value: op.Value, Id: op.Id, AtMs: m.meta.NowMs})
			if used >= 0 {
				d.Links = slices.Delete(d.Links, used, used+1)
			}
		})
		if wakes {
			j.Status, j.RunAt = fsm.Unclaimed, m.meta.NowMs
		}
	})
	if wakes {
		m.did = append(m.did, "a signal wakes a job")
	} else {
		m.did = append(m.did, "a signal comes first")
	}
	m.events = append(m.events, event{kind: fsm.JobSignalled, id: j.ID, from: j.Status, to: j.Status, text: op.Name})
	return answer(fsm.OK, j)
}

func (m *model) makeLink(op *fsmpb.MakeLink) fsm.Result {
	old := m.job(op.JobId)
	if old == nil || op.Seq != 0 && op.Seq != old.Seq {
		return fsm.Result{Code: fsm.NotFound}
	}
	refuse := func(code fsm.Code) fsm.Result { return fsm.Result{Code: code, Jobs: []*fsm.Job{old}} }
	if hasEnded(old.Status) {
		return refuse(fsm.WrongStatus)
	}
	var links []*fsmpb.SignalLink
	for _, l := range old.Details().Links {
		if string(l.Hash) == string(op.Hash) {
			return refuse(fsm.Duplicate)
		}
		if l.UntilMs > m.meta.NowMs {
			links = append(links, l)
		}
	}
	if len(links) == linksMax {
		return refuse(fsm.TooManySteps)
	}
	links = append(links, &fsmpb.SignalLink{Signal: op.Signal, Hash: op.Hash, UntilMs: op.UntilMs})
	j := m.change(old, func(j *fsm.Job) { details(j, func(d *fsm.Details) { d.Links = links }) })
	return fsm.Result{Jobs: []*fsm.Job{j}}
}

// flowOf has a job, and the jobs of its batch that run after it, directly or not, in FIFO order.
func (m *model) flowOf(first *fsm.Job) (flow []*fsm.Job, in map[string]bool) {
	in = map[string]bool{first.ID: true}
	for grown := true; grown; {
		grown = false
		for _, j := range m.jobs {
			o := j.Options()
			if !in[j.ID] && o.Batch == first.Options().Batch && slices.ContainsFunc(o.After, func(id string) bool { return in[id] }) {
				in[j.ID], grown = true, true
			}
		}
	}
	for _, j := range m.jobs {
		if in[j.ID] {
			flow = append(flow, j)
		}
	}
	return flow, in
}

func (m *model) retryFlow(op *fsmpb.RetryFlow) fsm.Result {
	first := m.job(op.JobId)
	if first == nil || op.Seq != 0 && op.Seq != first.Seq {
		return fsm.Result{Code: fsm.NotFound}
	}
	refuse := func(code fsm.Code, j *fsm.Job) fsm.Result { return fsm.Result{Code: code, Jobs: []*fsm.Job{j}} }
	if first.Options().Batch == "" {
		return refuse(fsm.NoSuchBatch, first)
	}
	flow, in := m.flowOf(first)
	if len(flow) > flowMax {
		return refuse(fsm.TooManyWaiters, first)
	}
	for i, j := range flow {
		if j.Status == fsm.InProgress {
			return refuse(fsm.WrongStatus, j)
		}
		holder := m.holder(j, nil)
		twice := unique(j) && slices.ContainsFunc(flow[:i], func(o *fsm.Job) bool {
			return unique(o) && o.Type == j.Type && o.Options().Unique.Key == j.Options().Unique.Key
		})
		if twice || holder != nil && holder.Seq != j.Seq {
			return refuse(fsm.UniqueTaken, j)
		}
	}
	for _, old := range flow {
		m.startAgain(old, in, op.Fresh)
	}
	if len(flow) > 1 {
		m.did = append(m.did, "a flow of several jobs runs again")
	}
	return fsm.Result{Jobs: []*fsm.Job{m.job(first.ID)}, Count: uint64(len(flow))}
}

// startAgain makes a job of a flow as new; in has the ids of all jobs that do so.
func (m *model) startAgain(old *fsm.Job, in map[string]bool, fresh bool) {
	waits, o := slices.Clone(old.Details().Waits), old.Options()
	note := func(id string, again bool) {
		if again && !slices.Contains(waits, id) {
			waits = append(waits, id)
		}
	}
	failed := func(id string) bool {
		s := m.outcomeOf(id)
		return o.AfterFailure == fsm.AfterOnly && (s == fsm.Dead || s == fsm.Cancelled || s == fsm.Expired)
	}
	for _, id := range o.After {
		note(id, in[id] || failed(id))
	}
	for _, id := range o.AfterBatches {
		note(batchMark+id, failed(batchMark+id))
	}
	line := m.busy(o.Sequence)
	j := m.change(old, func(j *fsm.Job) {
		m.asNew(j, fresh)
		details(j, func(d *fsm.Details) { d.Waits, d.InLine = waits, line })
		j.Status = m.waitingOrReady(j)
	})
	if j.Status == old.Status {
		m.events = append(m.events, event{kind: fsm.JobChanged, id: j.ID, from: j.Status, to: j.Status})
	}
}

// asNew gives a job a full set of attempts.
func (m *model) asNew(j *fsm.Job, fresh bool) {
	j.Attempts, j.AttemptEnd, j.Exec.Worker = 0, fsm.NoEnd, ""
	j.Exec.Heartbeat, j.Exec.FinishedAt, j.RunAt, j.Exec.Result = 0, 0, 0, nil
	details(j, func(d *fsm.Details) {
		d.CancelAt, d.Progress, d.ProgressAt, d.Waits, d.GivenBack = 0, fsm.Progress{}, 0, nil, 0
		d.Revived = j.Execution().Token == 0 && j.Options().StartBefore != 0
		d.Awaits, d.FailedBefore, d.Log = "", false, ""
		if fresh {
			d.Steps, d.Signals = nil, nil
		}
	})
}
