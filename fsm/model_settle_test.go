package fsm_test

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// waitersFor are the jobs that wait for a job, in FIFO order.
func (m *model) waitersFor(id string) (waiters []*fsm.Job) {
	for _, j := range m.jobs {
		if j.Status == fsm.Blocked && slices.Contains(j.Details().Waits, id) {
			waiters = append(waiters, j)
		}
	}
	return waiters
}

// The ids by which jobs wait for batches begin with these.
const (
	batchMark = "\x00batch:"
	endMark   = "\x00end:" // a suspended job, whatever the end is
)

// awaitedBatch is the batch of such an id.
func awaitedBatch(id string) (batch string, ok bool) {
	for _, mark := range []string{batchMark, endMark} {
		if batch, ok = strings.CutPrefix(id, mark); ok {
			return batch, true
		}
	}
	return "", false
}

// outcomeOf is the status of a job, or that which stands for a batch; 0: there is none.
func (m *model) outcomeOf(id string) fsm.Status {
	batch, ok := awaitedBatch(id)
	if !ok {
		return m.statusOf(id)
	}
	switch b := m.batch(batch); {
	case b == nil:
		return 0
	case b.EndedAtMs == 0:
		return fsm.Blocked
	case b.Completed < b.Total:
		return fsm.Dead
	}
	return fsm.Completed
}

// effect is the effect that the end of a job has on a waiting job.
type effect int

const (
	waitsOn effect = iota
	proceeds
	isCancelled
)

// effectOf returns the effect of the job with that id on a waiter, and the reason.
func (m *model) effectOf(waiter *fsm.Job, id string) (f effect, why string) {
	policy, what := waiter.Options().AfterFailure, "job "+id
	batch, ofBatch := awaitedBatch(id)
	if ofBatch {
		what = "batch " + batch
		m.did = append(m.did, "a job waits for a batch")
		if m.outcomeOf(id) == fsm.Dead {
			m.did = append(m.did, "a job waits for a batch that failed")
		}
	}
	gone := !ofBatch && m.job(id) == nil || ofBatch && m.batch(batch) == nil
	switch {
	case strings.HasPrefix(id, endMark):
		policy = fsm.AfterRun
	case gone && policy == fsm.AfterBlock:
		policy = fsm.AfterCancel
	}
	switch m.outcomeOf(id) {
	case 0:
		why = "was deleted"
	case fsm.Completed:
		return proceeds, ""
	case fsm.Dead:
		why = "is dead"
	case fsm.Cancelled:
		why = "was cancelled"
	case fsm.Expired:
		why = "has expired"
	default:
		return waitsOn, ""
	}
	switch policy {
	case fsm.AfterRun, fsm.AfterOnly:
		return proceeds, ""
	case fsm.AfterCancel:
		return isCancelled, what + ", which it waited for, " + why
	}
	return waitsOn, ""
}

// busy is whether a job of the sequence has not ended.
func (m *model) busy(sequence string) bool {
	return sequence != "" && slices.ContainsFunc(m.jobs, func(j *fsm.Job) bool {
		return j.Options().Sequence == sequence && !hasEnded(j.Status)
	})
}

// moveOn gives each sequence a first job that has none, but jobs in line.
func (m *model) moveOn() {
	lines := map[string][]*fsm.Job{}
	for _, j := range m.jobs {
		if name := j.Options().Sequence; name != "" && !hasEnded(j.Status) {
			lines[name] = append(lines[name], j)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if slices.ContainsFunc(lines[name], func(j *fsm.Job) bool { return !j.Details().InLine }) {
			continue
		}
		m.change(lines[name][0], func(j *fsm.Job) {
			details(j, func(d *fsm.Details) { d.InLine = false })
			j.Status = m.waitingOrReady(j)
		})
	}
}

// waitingOrReady is the status of a job that was not claimed.
func (m *model) waitingOrReady(j *fsm.Job) fsm.Status {
	if d := j.Details(); len(d.Waits) > 0 || d.InLine {
		return fsm.Blocked
	}
	return m.ready(j)
}

// unsettled is the lowest id of a job that has a waiter to settle.
func (m *model) unsettled() (lowest string, ok bool) {
	for _, j := range m.jobs {
		if j.Status != fsm.Blocked {
			continue
		}
		for _, id := range j.Details().Waits {
			if f, _ := m.effectOf(j, id); f != waitsOn && (!ok || id < lowest) {
				lowest, ok = id, true
			}
		}
	}
	return lowest, ok
}

// settle tells waiters what became of the jobs that they wait for, one after the
// other: the first waiter of the lowest id that has one to settle.
func (m *model) settle() {
	m.moveOn()
	for ; m.settling > 0; m.settling-- {
		id, ok := m.unsettled()
		if !ok {
			return
		}
		for _, waiter := range m.waitersFor(id) {
			if f, why := m.effectOf(waiter, id); f != waitsOn {
				m.settleOne(waiter, id, f, why)
				break
			}
		}
	}
}

func (m *model) settleOne(waiter *fsm.Job, id string, f effect, why string) {
	m.change(waiter, func(j *fsm.Job) {
		if f == isCancelled {
			m.finish(j, fsm.Cancelled, j.AttemptEnd)
			j.Exec.LastError = why
			return
		}
		only := j.Options().AfterFailure == fsm.AfterOnly && !strings.HasPrefix(id, endMark)
		details(j, func(d *fsm.Details) {
			d.Waits = slices.DeleteFunc(d.Waits, func(w string) bool { return w == id })
			d.FailedBefore = d.FailedBefore || only && m.outcomeOf(id) != fsm.Completed
		})
		if only && len(j.Details().Waits) == 0 {
			if !j.Details().FailedBefore {
				m.finish(j, fsm.Cancelled, j.AttemptEnd)
				j.Exec.LastError = "all that it waited for completed"
				m.did = append(m.did, "only: it is cancelled")
				return
			}
			m.did = append(m.did, "only: it runs")
		}
		j.Status = m.waitingOrReady(j)
	})
}

func byBatchID(a, b *fsm.JobBatch) int { return strings.Compare(a.Id, b.Id) }

// batchOf is the batch that a job counts in.
func (m *model) batchOf(j *fsm.Job) *fsm.JobBatch {
	if j.Options().Batch == "" {
		return nil
	}
	b := m.batch(j.Options().Batch)
	if b == nil || b.CreatedAtMs > j.CreatedAt {
		return nil
	}
	return b
}

// recountBatch keeps the counts of the batch of a job that is new (no old),
// changed, or gone (no j).
func (m *model) recountBatch(old, j *fsm.Job) {
	one := j
	if one == nil {
		one = old
	}
	batch := m.batchOf(one)
	if batch == nil {
		return
	}
	b := fsmpb.Copy(batch)
	was, is := old != nil && hasEnded(old.Status), j == nil || hasEnded(j.Status)
	switch {
	case old == nil:
		b.Total++
	case !was && is && j == nil:
		b.Cancelled++
	case !was && is:
		*countOf(b, j.Status)++
	case was && !is:
		countDown(countOf(b, old.Status))
		b.EndedAtMs = 0
	case was && j != nil && j.Status != old.Status:
		countDown(countOf(b, old.Status))
		*countOf(b, j.Status)++
	default:
		return
	}
	b.Total = max(b.Total, b.Completed+b.Dead+b.Cancelled)
	over := old != nil && is && b.Pending() == 0
	if over {
		b.EndedAtMs = m.meta.NowMs
	}
	calls := over
	switch fsm.CallbackOn(b.CallbackOn) {
	case fsm.CallbackCompleted:
		calls = over && b.Completed == b.Total
	case fsm.CallbackFailed:
		if calls = b.Dead > 0; calls && !b.Called && b.Callback != nil {
			m.did = append(m.did, "a callback of a failure")
		}
	}
	calls = calls && b.Callback != nil && !b.Called
	b.Called = b.Called || calls
	m.batches = put(m.batches, b, byBatchID)
	if over {
		m.happened(fsm.BatchEnded, b.Id)
	}
	if calls {
		m.callBack(b)
	}
}

// countDown lowers a counter, which can be 0 when a job counts in a batch that did not
// count it before.
func countDown(c *uint64) { *c -= min(*c, 1) }

func countOf(b *fsm.JobBatch, s fsm.Status) *uint64 {
	switch s {
	case fsm.Completed:
		return &b.Completed
	case fsm.Dead:
		return &b.Dead
	}
	return &b.Cancelled
}

// callBack enqueues the callback of a batch, unless its id is taken.
func (m *model) callBack(b *fsm.JobBatch) {
	n := proto.CloneOf(b.Callback)
	n.Optional().Batch, n.Optional().Step, n.Optional().Unique, n.Optional().After, n.Optional().AfterNames, n.Optional().AfterBatches, n.Optional().AfterFailure = "", "", nil, nil, nil, nil, 0
	for n.Id == "" || m.job(n.Id) != nil {
		n.Id += "-" + m.meta.LSN().String()
	}
	m.enter(m.fresh(n, ""))
}

func byTypeAndKey(a, b *fsm.Hold) int {
	if c := strings.Compare(a.Type, b.Type); c != 0 {
		return c
	}
	return strings.Compare(a.Key, b.Key)
}
