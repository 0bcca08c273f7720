package fsm

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/outbox"
	"osqueue/fsm/tenants"
	"osqueue/fsm/usage"
)

// cronsMax is the largest number of schedules. A schedule is kept until it is deleted.
const cronsMax = 100_000

// ScheduledHeader is the header of each job of a schedule: the time for which it was enqueued, in ms.
const ScheduledHeader = "osqueue-scheduled-at"

// lateMs is the delay, in ms, up to which a fire counts as in time.
const lateMs = 60_000

func newCrons() btree.Table[Cron] {
	return btree.NewTable(
		func(a, b *Cron) bool { return a.Name < b.Name },
		func(c *Cron) (int64, bool) { return c.NextAtMs, c.NextAtMs != 0 },
	)
}

// DueCrons calls fn for the schedules whose next time is now or earlier, earliest first,
// until fn returns false. The leader proposes a FireCron for each.
func (m *Machine) DueCrons(now int64, fn func(*Cron) bool) {
	m.crons.Due(func(c *Cron) bool { return c.NextAtMs <= now && fn(c) })
}

// storeCron stores c in place of old; nil stands for none. A schedule that has fired often enough gets no next time.
func (m *Machine) storeCron(old, c *Cron) {
	if c != nil && c.MaxFires > 0 && c.Fired >= c.MaxFires {
		c.NextAtMs = 0
	}
	m.usage.Keep(usage.OfCron(c), usage.OfCron(old))
	m.crons.Set(old, c)
}

// schedules applies the mutations about schedules.
type schedules struct{ *entry }

func (s schedules) putCron(op *fsmpb.PutCron) Result {
	c := &Cron{CreatedAtMs: s.meta.NowMs}
	old := s.crons.Find(&Cron{Name: op.Name})
	switch {
	case old != nil:
		c = fsmpb.Copy(old)
	case s.crons.Len() >= cronsMax:
		return Result{Code: TooManyCrons}
	}
	next := op.NextMs
	if old != nil && !op.Paused && firedAlready(old, next, s.meta.NowMs) {
		if next = old.NextAtMs; next == 0 || !reckonedBy(old, &op.Spec, &op.TimeZone, &op.StartMs, &op.EndMs) {
			return Result{Code: NotDue}
		}
	}
	c.Name, c.Spec, c.TimeZone = strings.Clone(op.Name), strings.Clone(op.Spec), strings.Clone(op.TimeZone)
	c.Job = fsmpb.Clone(op.Job)
	c.Job.Id = ""
	c.Overlap, c.Missed = op.Overlap, op.Missed
	c.StartMs, c.EndMs, c.JitterMs, c.MaxFires = op.StartMs, op.EndMs, op.JitterMs, op.MaxFires
	if code := s.mayKeep(usage.OfCron(c), usage.OfCron(old), c.Job.Quota); code != OK {
		return Result{Code: code}
	}
	setCronPaused(c, op.Paused, next, s.meta.NowMs)
	if old != nil && !c.Paused && old.NextAtMs != 0 && old.NextAtMs < c.NextAtMs &&
		reckonedBy(old, &op.Spec, &op.TimeZone, &op.StartMs, &op.EndMs) {
		c.NextAtMs = old.NextAtMs // it is due: the leader has proposed the fire
	}
	s.storeCron(old, c)
	s.events = append(s.events, Event{Kind: CronPut, Name: c.Name})
	return Result{}
}

// firedAlready reports whether the schedule has fired for next, a time that the leader
// computed before this entry: it must not fire for it again. A last time in the future
// proves nothing: it comes from a queue whose clock was ahead.
func firedAlready(c *Cron, next, now int64) bool {
	return next != 0 && c.LastAtMs != 0 && next <= c.LastAtMs && c.LastAtMs <= now
}

// reckonedBy reports whether a next time that was computed from these values (nil: not
// given) is one of the schedule's times.
func reckonedBy(c *Cron, spec, timeZone *string, start, end *int64) bool {
	return (spec == nil || *spec == c.Spec) && (timeZone == nil || *timeZone == c.TimeZone) &&
		(start == nil || *start == c.StartMs) && (end == nil || *end == c.EndMs)
}

func setCronPaused(c *Cron, paused bool, next, now int64) {
	c.Paused, c.NextAtMs, c.UpdatedAtMs = paused, next, now
	if paused {
		c.NextAtMs = 0
	}
}

func (s schedules) pauseCron(op *fsmpb.PauseCron) Result {
	old := s.crons.Find(&Cron{Name: op.Name})
	if old == nil {
		return Result{Code: NotFound}
	}
	if !op.Paused && (!reckonedBy(old, op.Spec, op.TimeZone, op.StartMs, op.EndMs) || firedAlready(old, op.NextMs, s.meta.NowMs)) {
		return Result{Code: NotDue}
	}
	c := fsmpb.Copy(old)
	setCronPaused(c, op.Paused, op.NextMs, s.meta.NowMs)
	s.storeCron(old, c)
	s.events = append(s.events, Event{Kind: CronPut, Name: c.Name})
	return Result{}
}

func (s schedules) deleteCron(op *fsmpb.DeleteCron) Result {
	c := s.crons.Find(&Cron{Name: op.Name})
	if c == nil {
		return Result{Code: NotFound}
	}
	s.storeCron(c, nil)
	s.events = append(s.events, Event{Kind: CronDeleted, Name: c.Name})
	return Result{}
}

// fireCron fires a schedule for its next time. If that time has changed since the
// proposal, it does nothing, so a schedule fires once however often the fire is proposed.
func (s schedules) fireCron(op *fsmpb.FireCron) Result {
	old := s.crons.Find(&Cron{Name: op.Name})
	if old == nil {
		return Result{Code: NotFound}
	}
	if old.Paused || old.NextAtMs == 0 || old.NextAtMs != op.DueMs || !reckonedBy(old, op.Spec, op.TimeZone, op.StartMs, op.EndMs) {
		return Result{Code: NotDue}
	}
	c := fsmpb.Copy(old)
	c.NextAtMs, c.LastAtMs = op.NextMs, op.AtMs
	c.MissedCount += op.Missed
	var res Result
	last := s.ids.Get(c.LastJobId)
	if late := job.Elapsed(op.AtMs, s.meta.NowMs); MissedPolicy(c.Missed) == MissedSkip && late > lateMs {
		c.MissedCount++
		c.LastError = "missed by " + itoa(late) + " ms"
	} else if putAfter(old, op.AtMs, s.meta.NowMs) {
		c.LastError = "the schedule was put " + itoa(job.Elapsed(op.AtMs, old.CreatedAtMs)) + " ms after this time"
	} else if OverlapPolicy(c.Overlap) == OverlapSkip && last != nil && !last.Status.Ended() {
		c.LastError = "job " + c.LastJobId + " has not ended"
	} else if res = s.enqueueFrom(c, op.JobId, jittered(c)); !res.Code.Done() {
		c.LastError = res.Code.Err().Error()
	} else {
		s.fired(old, c, res)
		if op.Missed > 0 {
			news := outbox.News(outbox.ScheduleMissed, c.Name, "it missed "+strconv.FormatUint(op.Missed, 10)+" times")
			news.JobId = res.Jobs[0].ID
			s.tell(news)
		}
		return Result{Code: OK, Jobs: res.Jobs}
	}
	c.Skipped++
	c.AddRun(&CronRun{AtMs: c.LastAtMs, Reason: c.LastError})
	s.storeCron(old, c)
	s.tell(outbox.News(outbox.ScheduleMissed, c.Name, c.LastError))
	s.events = append(s.events, Event{Kind: CronSkipped, Name: c.Name})
	return Result{}
}

// putAfter reports whether at lies before the first PUT of a schedule that has not fired
// yet: the PUT was committed after the time that the leader computed for it. A creation
// in the future says nothing: it comes from a queue whose clock was ahead.
func putAfter(c *Cron, at, now int64) bool {
	return c.LastAtMs == 0 && at < c.CreatedAtMs && c.CreatedAtMs <= now
}

// jittered returns the run time of the job for the schedule's last time, or 0 if the schedule has no jitter.
func jittered(c *Cron) int64 {
	if c.JitterMs <= 0 {
		return 0
	}
	return job.Later(c.LastAtMs, c.JitterOf(c.LastAtMs))
}

// cronHeaders returns the headers of a job that a schedule with these ones enqueues for the time at.
func cronHeaders(headers []*fsmpb.Header, at int64) []*fsmpb.Header {
	all := []*fsmpb.Header{{Name: ScheduledHeader, Value: itoa(at)}}
	for _, h := range headers {
		if h.GetName() != ScheduledHeader {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *fsmpb.Header) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// CheckCronHeaders refuses the headers of a schedule's job if they leave no room for ScheduledHeader.
func CheckCronHeaders(headers []*fsmpb.Header) error {
	return job.CheckHeaders(cronHeaders(headers, math.MinInt64))
}

// enqueueFrom enqueues the job of a schedule for its last time.
func (s schedules) enqueueFrom(c *Cron, id string, runAt int64) Result {
	n := fsmpb.Clone(c.Job)
	if n == nil {
		n = new(fsmpb.NewJob)
	}
	n.Id, n.RunAtMs = id, cmp.Or(runAt, n.RunAtMs)
	n.Optional().Headers = cronHeaders(n.Options.Headers, c.LastAtMs)
	res := s.enqueueJobs(plan{jobs: []*fsmpb.NewJob{n}, cron: c.Name})
	if res.Code == OK {
		res.Code = res.Codes[0]
	}
	return res
}

func (s schedules) fired(old, c *Cron, res Result) {
	j := res.Jobs[0]
	c.Fired++
	c.LastJobId, c.LastError = strings.Clone(j.ID), ""
	c.AddRun(&CronRun{AtMs: c.LastAtMs, JobId: c.LastJobId, Duplicate: res.Code == Duplicate})
	s.storeCron(old, c)
	s.events = append(s.events, Event{Kind: CronFired, Job: j, From: j.Status, Name: c.Name})
}

// noteRun notes the status of the job of a schedule in the job's run, if the schedule still has it: a later schedule of
// that name has no run that enqueued the job.
func (m *Machine) noteRun(j *Job, s Status) {
	if !s.Ended() {
		s = 0
	}
	old := m.crons.Find(&Cron{Name: j.Opt.Cron})
	if c := old.WithEnd(j.ID, uint32(s)); c != nil {
		m.storeCron(old, c)
	}
}

func (s schedules) triggerCron(op *fsmpb.TriggerCron) Result {
	old := s.crons.Find(&Cron{Name: op.Name})
	if old == nil {
		return Result{Code: NotFound}
	}
	c := fsmpb.Copy(old)
	c.LastAtMs = s.meta.NowMs
	res := s.enqueueFrom(c, op.JobId, 0)
	if !res.Code.Done() {
		return Result{Code: res.Code}
	}
	s.fired(old, c, res)
	return Result{Code: res.Code, Jobs: res.Jobs}
}

// CronFor is Job.For for a schedule.
func CronFor(c *Cron, tenant string) *Cron {
	key := c.Job.GetOptions().GetUnique().GetKey()
	if !tenants.Owns(c.Name) && !tenants.Owns(key) {
		return c
	}
	out := fsmpb.Copy(c)
	out.Name, out.Job = tenants.NameFor(tenant, c.Name), fsmpb.Clone(c.Job)
	if o := out.Job.GetOptions(); o != nil {
		o.Limits, o.Sequence = job.NamesFor(tenant, o.Limits), tenants.NameFor(tenant, o.Sequence)
		if u := o.Unique; u != nil {
			o.Unique = &fsmpb.Unique{Key: tenants.NameFor(tenant, u.Key), Scope: u.Scope, PeriodMs: u.PeriodMs}
		}
	}
	return out
}
