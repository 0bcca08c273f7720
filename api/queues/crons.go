package queues

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
)

// Schedules: this file computes the first time of a schedule, and the leader computes the later
// ones.

// putCron is PUT /v1/crons/{name}.
func (s *queues) putCron(c *core.Call, in *v1.NewCron) error {
	name := c.OwnedName(core.CronExists)
	if err := s.Config.Limits.CheckCronName(name); err != nil {
		return err
	}
	op, err := s.readCron(in)
	if err != nil {
		return err
	}
	if core.IsNull(c.Member("job")) {
		return core.Bad("job", "is missing; give the job to enqueue, at least {}")
	}
	op.Name = name
	return s.schedule(c, name, func() (*fsmpb.Mutation, error) {
		op.NextMs, err = s.firstTime(op)
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: op}}, err
	})
}

// scheduleTries bounds the attempts to schedule the next time of a schedule that fires or
// changes meanwhile.
const scheduleTries = 3

// schedule proposes the mutation that compute returns, with the next time of a schedule. If
// the schedule fires or changes before the mutation is applied, schedule computes the
// mutation again.
func (s *queues) schedule(c *core.Call, name string, compute func() (*fsmpb.Mutation, error)) error {
	for range scheduleTries {
		m, err := compute()
		if err != nil {
			return err
		}
		res, err := s.Propose(c, m)
		if err != nil {
			return err
		}
		if res.Code != fsm.NotDue {
			if res.Code == fsm.NotFound {
				return core.ErrNoCron
			}
			if err := res.Code.Err(); err != nil {
				return err
			}
			return s.answerCron(c, name)
		}
	}
	c.Lsn = fsm.LSN{} // nothing was written
	return core.Fail(core.Overtaken, "schedule %q fired or changed during each of %d attempts; repeat the request", name, scheduleTries)
}

func (s *queues) readCron(in *v1.NewCron) (op *fsmpb.PutCron, err error) {
	op = &fsmpb.PutCron{
		Spec: in.Spec, TimeZone: in.TimeZone, Paused: in.Paused,
		StartMs: in.StartAt, EndMs: in.EndAt, JitterMs: in.JitterMs, MaxFires: in.MaxFires,
	}
	if err := cmp.Or(checkTime("startAt", in.StartAt), checkTime("endAt", in.EndAt), core.CheckMs("jitterMs", in.JitterMs, s.Config.Limits.Delay),
		core.CheckRange("maxFires", int64(min(in.MaxFires, math.MaxInt64)), 0, 1<<53)); err != nil {
		return nil, err
	}
	if op.NextMs, err = s.firstTime(op); err != nil {
		return nil, err
	}
	if op.Overlap, err = core.Choice("overlap", in.Overlap, fsm.OverlapAllow, fsm.OverlapSkip); err != nil {
		return nil, err
	}
	if op.Missed, err = core.Choice("missed", in.Missed, fsm.MissedSkip, fsm.MissedOne, fsm.MissedAll); err != nil {
		return nil, err
	}
	if op.Job, err = s.cronJob(&in.Job); err != nil {
		return nil, core.Within(err, "job")
	}
	return op, nil
}

// firstTime returns the next time of the schedule in op.
func (s *queues) firstTime(op *fsmpb.PutCron) (int64, error) {
	if err := crontab.CheckNew(op.TimeZone); err != nil {
		return 0, core.Bad("timeZone", "is not valid: %s", strings.TrimPrefix(err.Error(), crontab.ErrZone.Error()+": "))
	}
	times, err := timesOf(op.Spec, op.TimeZone, op.StartMs, op.EndMs)
	if err != nil {
		return 0, err
	}
	next := times.Next(s.Node.Now())
	switch {
	case next != 0:
		return next, nil
	case op.EndMs != 0 && times.Within(op.StartMs, 0).Next(s.Node.Now()) != 0:
		return 0, core.Bad("endAt", "is %d; the schedule has no time before it that is in the future and not before startAt", op.EndMs)
	}
	return 0, core.Bad("spec", "never fires: it matches no time within five years")
}

// checkTime checks a time in ms; 0 is none.
func checkTime(member string, ms int64) error {
	if ms != 0 && ms < core.SecondsBelow {
		return core.Bad(member, "is %d; must be a time in milliseconds since 1970", ms)
	}
	return nil
}

// timesOf returns the times of a schedule; the error names the field.
func timesOf(spec, zone string, start, end int64) (*crontab.Schedule, error) {
	schedule, err := crontab.Parse(spec, zone)
	for member, kind := range map[string]error{"spec": crontab.ErrSpec, "timeZone": crontab.ErrZone} {
		if errors.Is(err, kind) {
			return nil, core.Bad(member, "is not valid: %s", strings.TrimPrefix(err.Error(), kind.Error()+": "))
		}
	}
	if err != nil {
		return nil, err
	}
	return schedule.Within(start, end), nil
}

// cronJob checks the job of a schedule. It refuses fields that must differ for each job, and
// fields that the schedule sets itself.
func (s *queues) cronJob(in *v1.NewJob) (*fsmpb.NewJob, error) {
	for _, one := range []struct {
		name  string
		given bool
	}{
		{"id", in.ID != ""},
		{"runAt", in.RunAt != 0},
		{"delayMs", in.DelayMs != 0},
		{"startBefore", in.StartBefore != 0},
		{"onConflict", in.OnConflict != ""},
		{"after", len(in.After) > 0},
		{"afterFailure", in.AfterFailure != ""},
		{"batchId", in.BatchID != ""},
		{"artefacts", len(in.Artefacts) > 0},
	} {
		if one.given {
			return nil, core.Bad(one.name, "cannot be set for the job of a schedule; leave it out")
		}
	}
	job, err := s.Reader.NewJob(in)
	if err != nil {
		return nil, err
	}
	job.Id = "" // each one gets its own
	if slices.ContainsFunc(job.Options.GetHeaders(), func(h *fsmpb.Header) bool { return h.Name == fsm.ScheduledHeader }) {
		return nil, core.Bad("headers", "has %s, which the schedule sets; leave it out", fsm.ScheduledHeader)
	}
	if fsm.CheckCronHeaders(job.Options.GetHeaders()) != nil {
		return nil, core.Bad("headers", "leaves no room for %s, which the schedule adds; leave out a header, or 40 bytes", fsm.ScheduledHeader)
	}
	return job, nil
}

// answerCron answers with a v1.CronPut. The next time is that of the current schedule, also for
// a repeated request.
func (s *queues) answerCron(c *core.Call, name string) error {
	c.Out = append(c.Out[:0], '{')
	if cron := s.Node.View().Cron(c.Owned(name)); cron != nil {
		c.Out = core.NumberIf(c.Out, "nextAt", cron.NextAtMs)
	}
	c.Out = append(core.LsnText(c.Out, c.Lsn), '}')
	return c.Send()
}

// deleteCron is DELETE /v1/crons/{name}.
func (s *queues) deleteCron(c *core.Call) error {
	name := c.OwnedName(core.CronExists)
	return s.CommitDone(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}}, core.ErrNoCron)
}

// pauseCron is POST /v1/crons/{name}/pause.
func (s *queues) pauseCron(c *core.Call) error {
	name := c.OwnedName(core.CronExists)
	if _, err := s.Commit(c, cronPauseOf(&fsmpb.PauseCron{Name: name, Paused: true}), core.ErrNoCron); err != nil {
		return err
	}
	return s.answerCron(c, name)
}

// resumeCron is POST /v1/crons/{name}/resume. It continues with the first time in the future.
// The machine reports a schedule that does not exist, because this node's state may be old.
func (s *queues) resumeCron(c *core.Call) error {
	name := c.OwnedName(core.CronExists)
	return s.schedule(c, name, func() (_ *fsmpb.Mutation, err error) {
		op := &fsmpb.PauseCron{Name: name}
		if cron := s.Node.View().Cron(c.Owned(name)); cron != nil {
			op.Spec, op.TimeZone, op.StartMs, op.EndMs = &cron.Spec, &cron.TimeZone, &cron.StartMs, &cron.EndMs
			times, err := timesOf(cron.Spec, cron.TimeZone, cron.StartMs, cron.EndMs)
			if err != nil {
				return nil, err
			}
			op.NextMs = times.Next(s.Node.Now())
		}
		return cronPauseOf(op), nil
	})
}

func cronPauseOf(op *fsmpb.PauseCron) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: op}}
}

// triggerCron is POST /v1/crons/{name}/trigger. It answers with a v1.Enqueued.
func (s *queues) triggerCron(c *core.Call) error {
	name := c.OwnedName(core.CronExists)
	id, err := core.NewID()
	if err != nil {
		return err
	}
	op := &fsmpb.TriggerCron{Name: name, JobId: id}
	res, err := s.Commit(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: op}}, core.ErrNoCron)
	if err != nil {
		return err
	}
	c.Out = core.Text(append(c.Out[:0], '{'), "jobId", core.EnqueuedID(res, 0, &fsmpb.NewJob{Id: id}))
	c.Out = core.LsnText(c.Out, c.Lsn)
	c.Out = append(core.FlagIf(c.Out, "duplicate", res.Code == fsm.Duplicate), '}')
	return c.Send()
}

// showCron is GET /v1/crons/{name}.
func (s *queues) showCron(c *core.Call) error {
	name := c.OwnedName(core.CronExists)
	v := c.View()
	cron := v.Cron(c.Owned(name))
	if cron == nil {
		return core.ErrNoCron
	}
	c.Out = appendCron(c.Out[:0], fsm.CronFor(cron, c.Viewer()))
	c.Out = append(appendNextTimes(appendRuns(c.Out, cron.Runs), cron), '}')
	return c.Send()
}

// listCrons is GET /v1/crons.
func (s *queues) listCrons(c *core.Call) error {
	limit, from, err := s.ReadNamePage(c.Params)
	if err != nil {
		return err
	}
	built, err := s.Page(c)
	if err != nil {
		return err
	}
	v := c.View()
	var crons []*fsm.Cron
	bytes, more := 0, false
	for cron := range v.Crons(from) {
		if more = len(crons) == limit || len(crons) > 0 && bytes >= s.Config.Limits.ListBytes; more {
			break
		}
		crons = append(crons, cron)
		bytes += cronBytes(cron)
	}
	built()
	c.Out = append(c.Out[:0], `{"crons":[`...)
	show := func(b []byte, cron *fsm.Cron) []byte {
		return append(appendCron(b, fsm.CronFor(cron, c.Viewer())), '}')
	}
	if err := core.SendItems(c, false, crons, cronBytes, show); err != nil {
		return err
	}
	c.Out = append(c.Out, ']')
	if more {
		c.Out = core.Text(c.Out, "nextCursor", core.NameCursorOf(crons[len(crons)-1].Name))
	}
	c.Out = append(core.LsnText(c.Out, c.Lsn), '}')
	return c.Send()
}

// cronBytes estimates the bytes of a schedule in a list.
func cronBytes(cron *fsm.Cron) int { return len(cron.Job.Payload) + core.ShortJob }

// nextTimesMax is the number of times that a schedule shows in advance.
const nextTimesMax = 5

// appendNextTimes appends the next times of a schedule, as far as this version can read it.
func appendNextTimes(b []byte, cron *fsm.Cron) []byte {
	times, err := timesOf(cron.Spec, cron.TimeZone, cron.StartMs, cron.EndMs)
	if err != nil || cron.NextAtMs == 0 {
		return b
	}
	most := uint64(nextTimesMax)
	if cron.MaxFires != 0 {
		most = min(most, cron.MaxFires-cron.Fired) // it has a next time, so it has fired less often
	}
	b = append(core.Key(b, "nextTimes"), '[')
	for at := cron.NextAtMs; at != 0 && most > 0; at, most = times.Next(at), most-1 {
		b = append(strconv.AppendInt(b, at, 10), ',')
	}
	b[len(b)-1] = ']'
	return b
}

// appendRuns appends v1.CronRuns, the youngest first.
func appendRuns(b []byte, runs []*fsm.CronRun) []byte {
	if len(runs) == 0 {
		return b
	}
	b = append(core.Key(b, "runs"), '[')
	for _, r := range slices.Backward(runs) {
		outcome := fsm.Status(r.Status).String()
		switch {
		case r.Duplicate:
			outcome = v1.RunDuplicate
		case r.JobId == "":
			outcome = v1.RunSkipped
		case r.Status == 0:
			outcome = ""
		}
		b = core.Number(append(b, '{'), "at", r.AtMs)
		b = core.TextIf(core.TextIf(b, "jobId", r.JobId), "outcome", outcome)
		b = append(core.TextIf(b, "reason", r.Reason), "},"...)
	}
	b[len(b)-1] = ']'
	return b
}

// appendCron appends a v1.Cron without its end.
func appendCron(b []byte, cron *fsm.Cron) []byte {
	b = core.Text(append(b, '{'), "name", cron.Name)
	b = core.Text(b, "spec", cron.Spec)
	b = core.TextIf(b, "timeZone", cron.TimeZone)
	b = appendNewJob(core.Key(b, "job"), cron.Job)
	if p := fsm.OverlapPolicy(cron.Overlap); p != fsm.OverlapAllow {
		b = core.Text(b, "overlap", p.String())
	}
	if p := fsm.MissedPolicy(cron.Missed); p != fsm.MissedSkip {
		b = core.Text(b, "missed", p.String())
	}
	b = core.NumberIf(b, "startAt", cron.StartMs)
	b = core.NumberIf(b, "endAt", cron.EndMs)
	b = core.NumberIf(b, "jitterMs", cron.JitterMs)
	b = core.NumberIf(b, "maxFires", int64(cron.MaxFires))
	b = core.FlagIf(b, "paused", cron.Paused)
	b = core.NumberIf(b, "nextAt", cron.NextAtMs)
	b = core.Number(b, "createdAt", cron.CreatedAtMs)
	b = core.Number(b, "updatedAt", cron.UpdatedAtMs)
	b = core.NumberIf(b, "lastAt", cron.LastAtMs)
	b = core.TextIf(b, "lastJobId", cron.LastJobId)
	b = core.TextIf(b, "lastError", cron.LastError)
	b = core.Number(b, "fired", int64(cron.Fired))
	b = core.Number(b, "skipped", int64(cron.Skipped))
	return core.Number(b, "missedCount", int64(cron.MissedCount))
}

// appendNewJob appends the v1.NewJob of a schedule. The getters handle absent fields and a nil
// job.
func appendNewJob(b []byte, j *fsmpb.NewJob) []byte {
	b = append(b, '{')
	b = core.TextIf(b, "type", j.GetType())
	b = core.OpaqueIf(b, "payload", j.GetPayload())
	b = core.NumberIf(b, "priority", int64(j.GetPriority()))
	if j != nil && j.MaxAttempts != nil {
		b = core.Number(b, "maxAttempts", int64(*j.MaxAttempts))
	}
	b = core.NumberIf(b, "leaseMs", j.GetLeaseMs())
	o := j.GetOptions()
	if w := o.GetBackoff(); w.GetKind() != 0 {
		b = core.AppendBackoff(core.Key(b, "backoff"), backoff.Backoff{
			Kind: backoff.Kind(w.Kind), BaseMs: w.BaseMs, CapMs: w.CapMs, Jitter: uint8(w.JitterPercent),
		})
	}
	b = core.NumberIf(b, "timeoutMs", o.GetTimeoutMs())
	b = core.NumberIf(b, "retainMs", o.GetRetainMs())
	b = core.AppendOnError(b, o.GetOnError())
	b = core.TextIf(b, "group", o.GetGroup())
	b = core.TextsIf(b, "tags", o.GetTags())
	b = core.TextsIf(b, "limits", o.GetLimits())
	b = core.TextIf(b, "sequence", o.GetSequence())
	b = core.AppendHeaders(b, o.GetHeaders())
	if u := o.GetUnique(); u.GetKey() != "" {
		b = core.Text(b, "uniqueKey", u.Key)
		b = core.TextIf(b, "uniqueScope", fsm.UniqueScope(u.Scope).String())
		b = core.NumberIf(b, "uniqueMs", u.PeriodMs)
	}
	return append(b, '}')
}
