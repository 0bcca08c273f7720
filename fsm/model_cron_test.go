package fsm_test

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// lateMs is how late a fire may be without being missed.
const lateMs = 60_000

func byCronName(a, b *fsm.Cron) int { return strings.Compare(a.Name, b.Name) }

func (m *model) cron(name string) *fsm.Cron {
	return found(m.crons, func(c *fsm.Cron) bool { return c.Name == name })
}

// setCron replaces a schedule by a changed copy.
func (m *model) setCron(old *fsm.Cron, how func(*fsm.Cron)) {
	c := fsmpb.Copy(old)
	how(c)
	if c.MaxFires != 0 && c.MaxFires <= c.Fired {
		c.NextAtMs = 0
	}
	m.crons = put(m.crons, c, byCronName)
}

func (m *model) putCron(op *fsmpb.PutCron) fsm.Result {
	old := m.cron(op.Name)
	if old == nil {
		old = &fsm.Cron{Name: op.Name, CreatedAtMs: m.meta.NowMs}
	}
	next := op.NextMs
	if m.firedFor(old, op.Paused, next) {
		next = old.NextAtMs
		if next == 0 || otherTimes(old, &op.Spec, &op.TimeZone, &op.StartMs, &op.EndMs) {
			return fsm.Result{Code: fsm.NotDue}
		}
	}
	before := *m
	before.crons = slices.DeleteFunc(slices.Clone(m.crons), func(c *fsm.Cron) bool { return c.Name == op.Name })
	job := proto.CloneOf(op.Job)
	job.Id = ""
	size := cronBytes(m, &fsm.Cron{Name: op.Name, Spec: op.Spec, TimeZone: op.TimeZone, Job: job, Runs: old.Runs})
	if code := m.overRecordQuota(&before, size, size-(m.recordBytes()-before.recordBytes()), job.Quota, 0); code != fsm.OK {
		return fsm.Result{Code: code}
	}
	m.setCron(old, func(c *fsm.Cron) {
		c.Spec, c.TimeZone, c.Job = op.Spec, op.TimeZone, proto.CloneOf(op.Job)
		c.Job.Id = ""
		c.Overlap, c.Missed = op.Overlap, op.Missed
		c.StartMs, c.EndMs, c.JitterMs, c.MaxFires = op.StartMs, op.EndMs, op.JitterMs, op.MaxFires
		c.Paused, c.NextAtMs, c.UpdatedAtMs = op.Paused, nextTime(op.Paused, next), m.meta.NowMs
		same := !otherTimes(old, &op.Spec, &op.TimeZone, &op.StartMs, &op.EndMs)
		if same && !op.Paused && old.NextAtMs != 0 && old.NextAtMs < next {
			c.NextAtMs = old.NextAtMs
		}
	})
	m.happened(fsm.CronPut, op.Name)
	return fsm.Result{}
}

// firedFor: a schedule does not get a time for which it has fired, unless that time is in the future.
func (m *model) firedFor(c *fsm.Cron, paused bool, next int64) bool {
	return !paused && next != 0 && c.LastAtMs != 0 && c.LastAtMs >= next && m.meta.NowMs >= c.LastAtMs
}

// otherTimes: the next time was reckoned by what the schedule does not have.
func otherTimes(c *fsm.Cron, spec, zone *string, start, end *int64) bool {
	return spec != nil && *spec != c.Spec || zone != nil && *zone != c.TimeZone ||
		start != nil && *start != c.StartMs || end != nil && *end != c.EndMs
}

// nextTime is the next time of a schedule: a paused one has none.
func nextTime(paused bool, next int64) int64 {
	if paused {
		return 0
	}
	return next
}

func (m *model) pauseCron(op *fsmpb.PauseCron) fsm.Result {
	old := m.cron(op.Name)
	if old == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	if !op.Paused && otherTimes(old, op.Spec, op.TimeZone, op.StartMs, op.EndMs) || m.firedFor(old, op.Paused, op.NextMs) {
		return fsm.Result{Code: fsm.NotDue}
	}
	m.setCron(old, func(c *fsm.Cron) {
		c.Paused, c.NextAtMs, c.UpdatedAtMs = op.Paused, nextTime(op.Paused, op.NextMs), m.meta.NowMs
	})
	m.happened(fsm.CronPut, op.Name)
	return fsm.Result{}
}

func (m *model) deleteCron(op *fsmpb.DeleteCron) fsm.Result {
	if m.cron(op.Name) == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	m.crons = slices.DeleteFunc(slices.Clone(m.crons), func(c *fsm.Cron) bool { return c.Name == op.Name })
	m.happened(fsm.CronDeleted, op.Name)
	return fsm.Result{}
}

func (m *model) fireCron(op *fsmpb.FireCron) fsm.Result {
	old := m.cron(op.Name)
	if old == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	if old.Paused || old.NextAtMs == 0 || old.NextAtMs != op.DueMs || otherTimes(old, op.Spec, op.TimeZone, op.StartMs, op.EndMs) {
		return fsm.Result{Code: fsm.NotDue}
	}
	job, code, why, late := m.fired(old, op)
	m.setCron(old, func(c *fsm.Cron) {
		c.NextAtMs, c.LastAtMs, c.LastError = op.NextMs, op.AtMs, why
		c.MissedCount += op.Missed
		if late {
			c.MissedCount++
		}
		if why != "" {
			c.Skipped++
			ran(c, &fsm.CronRun{AtMs: op.AtMs, Reason: why})
			return
		}
		c.Fired++
		c.LastJobId = job.ID
		ran(c, &fsm.CronRun{AtMs: op.AtMs, JobId: job.ID, Duplicate: code == fsm.Duplicate})
	})
	if why != "" {
		m.happened(fsm.CronSkipped, op.Name)
		return fsm.Result{}
	}
	m.events = append(m.events, event{kind: fsm.CronFired, id: job.ID, from: job.Status, to: job.Status, name: op.Name})
	if op.Missed > 0 {
		m.tell(outbox.ScheduleMissed, &outbox.Event{Subject: op.Name, JobId: job.ID, Text: fmt.Sprintf("it missed %d times", op.Missed)})
	}
	return fsm.Result{Jobs: []*fsm.Job{job}}
}

// fired enqueues the job of a schedule, or says why not.
func (m *model) fired(c *fsm.Cron, op *fsmpb.FireCron) (job *fsm.Job, code fsm.Code, why string, late bool) {
	if sum(op.AtMs, lateMs) < m.meta.NowMs && fsm.MissedPolicy(c.Missed) == fsm.MissedSkip {
		return nil, 0, "missed by " + decimal(since(m.meta.NowMs, op.AtMs)) + " ms", true
	}
	if c.LastAtMs == 0 && c.CreatedAtMs > op.AtMs && m.meta.NowMs >= c.CreatedAtMs {
		return nil, 0, "the schedule was put " + decimal(since(c.CreatedAtMs, op.AtMs)) + " ms after this time", false
	}
	if last := m.job(c.LastJobId); fsm.OverlapPolicy(c.Overlap) == fsm.OverlapSkip && last != nil && !hasEnded(last.Status) {
		return nil, 0, "job " + c.LastJobId + " has not ended", false
	}
	runAt := c.Job.RunAtMs
	if c.JitterMs > 0 {
		hash := sha256.Sum256(append(append([]byte(c.Name), 0), decimal(op.AtMs)...))
		part := new(big.Int).Mod(new(big.Int).SetBytes(hash[:8]), big.NewInt(c.JitterMs))
		runAt = sum(op.AtMs, part.Int64())
	}
	if job, code = m.enqueueFor(c, op.JobId, op.AtMs, runAt); !code.Done() {
		return nil, 0, code.Err().Error(), false
	}
	return job, code, "", false
}

// ran adds a run to those of a schedule, of which the last 50 stay.
func ran(c *fsm.Cron, run *fsm.CronRun) {
	c.Runs = lastOf(append(slices.Clone(c.Runs), run), 50)
}

// noteRun gives the youngest run of a job that exists, or that is removed (no j), its status, if it has ended.
func (m *model) noteRun(old, j *fsm.Job) {
	if old == nil || j == nil && hasEnded(old.Status) {
		return
	}
	status := fsm.Cancelled
	if j != nil {
		if status = j.Status; !hasEnded(status) {
			status = 0
		}
	}
	for _, c := range m.crons {
		if c.Name == "" || c.Name != old.Options().Cron {
			continue
		}
		for i := range slices.Backward(c.Runs) {
			if run := fsmpb.Copy(c.Runs[i]); run.JobId == old.ID && !run.Duplicate {
				run.Status = uint32(status)
				m.setCron(c, func(c *fsm.Cron) { c.Runs = slices.Concat(c.Runs[:i], []*fsm.CronRun{run}, c.Runs[i+1:]) })
				return
			}
		}
	}
}

// enqueueFor enqueues the job of a schedule for a time under an id.
func (m *model) enqueueFor(c *fsm.Cron, id string, at, runAt int64) (*fsm.Job, fsm.Code) {
	before := m.copied()
	n := proto.CloneOf(c.Job)
	n.Id, n.RunAtMs = id, runAt
	n.Optional().Headers = slices.DeleteFunc(n.Options.GetHeaders(), func(h *fsmpb.Header) bool { return h.Name == "osqueue-scheduled-at" })
	n.Optional().Headers = append(n.Options.GetHeaders(), &fsmpb.Header{Name: "osqueue-scheduled-at", Value: decimal(at)})
	slices.SortFunc(n.Options.GetHeaders(), func(a, b *fsmpb.Header) int { return strings.Compare(a.Name, b.Name) })
	res := fsm.Result{Jobs: make([]*fsm.Job, 1), Codes: make([]fsm.Code, 1)}
	if _, code := m.addAll([]*fsmpb.NewJob{n}, c.Name, nil, res); code != fsm.OK {
		*m = *before
		return nil, code
	}
	return res.Jobs[0], res.Codes[0]
}

func (m *model) triggerCron(op *fsmpb.TriggerCron) fsm.Result {
	old := m.cron(op.Name)
	if old == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	job, code := m.enqueueFor(old, op.JobId, m.meta.NowMs, old.Job.RunAtMs)
	if !code.Done() {
		return fsm.Result{Code: code}
	}
	m.setCron(old, func(c *fsm.Cron) {
		c.LastAtMs, c.LastError, c.LastJobId = m.meta.NowMs, "", job.ID
		c.Fired++
		ran(c, &fsm.CronRun{AtMs: m.meta.NowMs, JobId: job.ID, Duplicate: code == fsm.Duplicate})
	})
	m.events = append(m.events, event{kind: fsm.CronFired, id: job.ID, from: job.Status, to: job.Status, name: op.Name})
	return fsm.Result{Code: code, Jobs: []*fsm.Job{job}}
}
