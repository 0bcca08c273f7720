package fsm_test

import (
	"fmt"
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
	m.crons = put(m.crons, c, byCronName)
}

func (m *model) putCron(op *fsmpb.PutCron) fsm.Result {
	old := m.cron(op.Name)
	if old == nil {
		old = &fsm.Cron{Name: op.Name, CreatedAtMs: m.meta.Now}
	}
	next := op.NextMs
	if m.firedFor(old, op.Paused, next) {
		next = old.NextAtMs
		if next == 0 || otherSpec(old, &op.Spec, &op.TimeZone) {
			return fsm.Result{Code: fsm.NotDue}
		}
	}
	before := *m
	before.crons = slices.DeleteFunc(slices.Clone(m.crons), func(c *fsm.Cron) bool { return c.Name == op.Name })
	job := proto.CloneOf(op.Job)
	job.Id = ""
	size := recordBytes + int64(len(op.Name+op.Spec+op.TimeZone)) + m.templateBytes(job)
	if code := m.overRecordQuota(&before, size, size-(m.recordBytes()-before.recordBytes()), job.Quota, 0); code != fsm.OK {
		return fsm.Result{Code: code}
	}
	m.setCron(old, func(c *fsm.Cron) {
		c.Spec, c.TimeZone, c.Job = op.Spec, op.TimeZone, proto.CloneOf(op.Job)
		c.Job.Id = ""
		c.Overlap, c.Missed = op.Overlap, op.Missed
		c.Paused, c.NextAtMs, c.UpdatedAtMs = op.Paused, nextTime(op.Paused, next), m.meta.Now
		same := old.Spec == op.Spec && old.TimeZone == op.TimeZone
		if same && !op.Paused && old.NextAtMs != 0 && old.NextAtMs < next {
			c.NextAtMs = old.NextAtMs
		}
	})
	m.happened(fsm.CronPut, op.Name)
	return fsm.Result{}
}

// firedFor: a schedule does not get a time for which it has fired, unless that time is in the future.
func (m *model) firedFor(c *fsm.Cron, paused bool, next int64) bool {
	return !paused && next != 0 && c.LastAtMs != 0 && c.LastAtMs >= next && m.meta.Now >= c.LastAtMs
}

// otherSpec: the next time was reckoned by what the schedule does not have.
func otherSpec(c *fsm.Cron, spec, zone *string) bool {
	return spec != nil && *spec != c.Spec || zone != nil && *zone != c.TimeZone
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
	if !op.Paused && otherSpec(old, op.Spec, op.TimeZone) || m.firedFor(old, op.Paused, op.NextMs) {
		return fsm.Result{Code: fsm.NotDue}
	}
	m.setCron(old, func(c *fsm.Cron) {
		c.Paused, c.NextAtMs, c.UpdatedAtMs = op.Paused, nextTime(op.Paused, op.NextMs), m.meta.Now
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
	if old.Paused || old.NextAtMs == 0 || old.NextAtMs != op.DueMs || otherSpec(old, op.Spec, op.TimeZone) {
		return fsm.Result{Code: fsm.NotDue}
	}
	job, why, late := m.fired(old, op)
	m.setCron(old, func(c *fsm.Cron) {
		c.NextAtMs, c.LastAtMs, c.LastError = op.NextMs, op.AtMs, why
		c.MissedCount += op.Missed
		if late {
			c.MissedCount++
		}
		if why != "" {
			c.Skipped++
			return
		}
		c.Fired++
		c.LastJobId = job.ID
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
func (m *model) fired(c *fsm.Cron, op *fsmpb.FireCron) (job *fsm.Job, why string, late bool) {
	if sum(op.AtMs, lateMs) < m.meta.Now && fsm.MissedPolicy(c.Missed) == fsm.MissedSkip {
		return nil, "missed by " + decimal(since(m.meta.Now, op.AtMs)) + " ms", true
	}
	if c.LastAtMs == 0 && c.CreatedAtMs > op.AtMs && m.meta.Now >= c.CreatedAtMs {
		return nil, "the schedule was put " + decimal(since(c.CreatedAtMs, op.AtMs)) + " ms after this time", false
	}
	if last := m.job(c.LastJobId); fsm.OverlapPolicy(c.Overlap) == fsm.OverlapSkip && last != nil && !hasEnded(last.Status) {
		return nil, "job " + c.LastJobId + " has not ended", false
	}
	job, code := m.enqueueFor(c, op.JobId)
	if !code.Done() {
		return nil, code.Err().Error(), false
	}
	return job, "", false
}

// enqueueFor enqueues the job of a schedule under an id.
func (m *model) enqueueFor(c *fsm.Cron, id string) (*fsm.Job, fsm.Code) {
	before := m.copied()
	n := proto.CloneOf(c.Job)
	n.Id = id
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
	job, code := m.enqueueFor(old, op.JobId)
	if !code.Done() {
		return fsm.Result{Code: code}
	}
	m.setCron(old, func(c *fsm.Cron) {
		c.LastAtMs, c.LastError, c.LastJobId = m.meta.Now, "", job.ID
		c.Fired++
	})
	m.events = append(m.events, event{kind: fsm.CronFired, id: job.ID, from: job.Status, to: job.Status, name: op.Name})
	return fsm.Result{Code: code, Jobs: []*fsm.Job{job}}
}
