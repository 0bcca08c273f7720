package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Schedules: this file computes the first time of a schedule, and the leader computes the later
// ones.

func (s *queues) cronRoutes() []route {
	const one = v1.PathCrons + "/{name}"
	return []route{
		{
			method: http.MethodGet, path: v1.PathCrons, at: upToDate, past: true, handle: s.listCrons,
			params: []string{v1.ParamLimit, v1.ParamCursor},
		},
		{method: http.MethodGet, path: one, at: upToDate, past: true, handle: s.showCron},
		{method: http.MethodPut, path: one, at: leaderOnly, handle: s.putCron},
		{method: http.MethodDelete, path: one, at: leaderOnly, handle: s.deleteCron},
		{method: http.MethodPost, path: one + "/" + v1.ActionPause, at: leaderOnly, handle: s.pauseCron},
		{method: http.MethodPost, path: one + "/" + v1.ActionResume, at: leaderOnly, handle: s.resumeCron},
		{method: http.MethodPost, path: one + "/" + v1.ActionTrigger, at: leaderOnly, handle: s.triggerCron},
	}
}

// putCron is PUT /v1/crons/{name}.
func (s *queues) putCron(c *call) error {
	name, err := c.objectVariable(cronExists)
	if err != nil {
		return err
	}
	if err := s.cfg.Limits.checkCronName(name); err != nil {
		return err
	}
	var in v1.NewCron
	if err := c.decode(&in); err != nil {
		return err
	}
	op, err := s.readCron(&in)
	if err != nil {
		return err
	}
	if isNull(c.member("job")) {
		return bad("job", "is missing; give the job to enqueue, at least {}")
	}
	op.Name = name
	return s.schedule(c, name, func() (*fsmpb.Mutation, error) {
		op.NextMs, err = s.firstTime(op)
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: op}}, err
	})
}

var overtaken = kind{status: http.StatusServiceUnavailable, tag: v1.TagOverloaded, title: "The schedule fires too often", retry: time.Second}

// scheduleTries bounds the attempts to schedule the next time of a schedule that fires or
// changes meanwhile.
const scheduleTries = 3

// schedule proposes the mutation that compute returns, with the next time of a schedule. If
// the schedule fires or changes before the mutation is applied, schedule computes the
// mutation again.
func (s *queues) schedule(c *call, name string, compute func() (*fsmpb.Mutation, error)) error {
	for range scheduleTries {
		m, err := compute()
		if err != nil {
			return err
		}
		res, err := s.propose(c, m)
		if err != nil {
			return err
		}
		if res.Code != fsm.NotDue {
			return s.answerCron(c, name, res)
		}
	}
	c.lsn = fsm.LSN{} // nothing was written
	return fail(overtaken, "schedule %q fired or changed during each of %d attempts; repeat the request", name, scheduleTries)
}

// checkCronName checks the name of a new schedule, which must fit into a path.
func (l *Limits) checkCronName(name string) error {
	if name == "" || name == "." || name == ".." {
		return bad("name", "is %q, which cannot be part of a path; choose another name", name)
	}
	return l.checkNewName("name", name)
}

func (s *queues) readCron(in *v1.NewCron) (op *fsmpb.PutCron, err error) {
	op = &fsmpb.PutCron{Spec: in.Spec, TimeZone: in.TimeZone, Paused: in.Paused}
	if op.NextMs, err = s.firstTime(op); err != nil {
		return nil, err
	}
	switch in.Overlap {
	case "", v1.OverlapAllow:
	case v1.OverlapSkip:
		op.Overlap = uint32(fsm.OverlapSkip)
	default:
		return nil, unknownValue("overlap", in.Overlap, v1.OverlapAllow, v1.OverlapSkip)
	}
	switch in.Missed {
	case "", v1.MissedSkip:
	case v1.MissedOne:
		op.Missed = uint32(fsm.MissedOne)
	default:
		return nil, unknownValue("missed", in.Missed, v1.MissedSkip, v1.MissedOne)
	}
	if op.Job, err = s.cronJob(&in.Job); err != nil {
		return nil, within(err, "job")
	}
	return op, nil
}

// firstTime returns the next time of the schedule in op.
func (s *queues) firstTime(op *fsmpb.PutCron) (int64, error) {
	if err := cluster.CheckNewZone(op.TimeZone); err != nil {
		return 0, bad("timeZone", "is not valid: %s", strings.TrimPrefix(err.Error(), cluster.ErrTimeZone.Error()+": "))
	}
	next, err := nextTime(op.Spec, op.TimeZone, s.b.Now())
	if err == nil && next == 0 {
		err = bad("spec", "never fires: it matches no time within five years")
	}
	return next, err
}

// nextTime returns the first time of a schedule after a moment; the error names the field.
func nextTime(spec, zone string, after int64) (int64, error) {
	next, err := cluster.NextTime(spec, zone, after)
	for member, kind := range map[string]error{"spec": cluster.ErrSpec, "timeZone": cluster.ErrTimeZone} {
		if errors.Is(err, kind) {
			return 0, bad(member, "is not valid: %s", strings.TrimPrefix(err.Error(), kind.Error()+": "))
		}
	}
	return next, err
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
		{"after", len(in.After) > 0},
		{"afterFailure", in.AfterFailure != ""},
		{"batchId", in.BatchID != ""},
	} {
		if one.given {
			return nil, bad(one.name, "cannot be set for the job of a schedule; leave it out")
		}
	}
	job, err := s.reader.newJob(in)
	if err != nil {
		return nil, err
	}
	job.Id = "" // each one gets its own
	return job, nil
}

var errNoCron = notThere("schedule", "the schedule does not exist")

// answerCron answers with a v1.CronPut. The next time is that of the current schedule, also for
// a repeated request.
func (s *queues) answerCron(c *call, name string, res fsm.Result) error {
	if err := cronError(res); err != nil {
		return err
	}
	c.out = append(c.out[:0], '{')
	if cron := s.b.View().Cron(c.owned(name)); cron != nil {
		c.out = numberIf(c.out, "nextAt", cron.NextAt)
	}
	c.out = append(lsnText(c.out, c.lsn), '}')
	return c.send()
}

func cronError(res fsm.Result) error {
	if res.Code == fsm.NotFound {
		return errNoCron
	}
	return res.Code.Err()
}

// deleteCron is DELETE /v1/crons/{name}.
func (s *queues) deleteCron(c *call) error {
	name, err := c.objectVariable(cronExists)
	if err != nil {
		return err
	}
	res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}})
	if err != nil {
		return err
	}
	if err := cronError(res); err != nil {
		return err
	}
	c.out = append(lsnText(append(c.out[:0], '{'), c.lsn), '}')
	return c.send()
}

// pauseCron is POST /v1/crons/{name}/pause.
func (s *queues) pauseCron(c *call) error {
	name, err := c.objectVariable(cronExists)
	if err != nil {
		return err
	}
	res, err := s.propose(c, cronPauseOf(&fsmpb.PauseCron{Name: name, Paused: true}))
	if err != nil {
		return err
	}
	return s.answerCron(c, name, res)
}

// resumeCron is POST /v1/crons/{name}/resume. It continues with the first time in the future.
// The machine reports a schedule that does not exist, because this node's state may be old.
func (s *queues) resumeCron(c *call) error {
	name, err := c.objectVariable(cronExists)
	if err != nil {
		return err
	}
	return s.schedule(c, name, func() (*fsmpb.Mutation, error) {
		op := &fsmpb.PauseCron{Name: name}
		if cron := s.b.View().Cron(c.owned(name)); cron != nil {
			op.Spec, op.TimeZone = &cron.Spec, &cron.TimeZone
			if op.NextMs, err = nextTime(cron.Spec, cron.TimeZone, s.b.Now()); err != nil {
				return nil, err
			}
		}
		return cronPauseOf(op), nil
	})
}

func cronPauseOf(op *fsmpb.PauseCron) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: op}}
}

// triggerCron is POST /v1/crons/{name}/trigger. It answers with a v1.Enqueued.
func (s *queues) triggerCron(c *call) error {
	name, err := c.objectVariable(cronExists)
	if err != nil {
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	op := &fsmpb.TriggerCron{Name: name, JobId: id}
	res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: op}})
	if err != nil {
		return err
	}
	if err := cronError(res); err != nil {
		return err
	}
	c.out = text(append(c.out[:0], '{'), "jobId", enqueuedID(res, 0, &fsmpb.NewJob{Id: id}))
	c.out = lsnText(c.out, c.lsn)
	c.out = append(flagIf(c.out, "duplicate", res.Code == fsm.Duplicate), '}')
	return c.send()
}

// showCron is GET /v1/crons/{name}.
func (s *queues) showCron(c *call) error {
	name, err := c.objectVariable(cronExists)
	if err != nil {
		return err
	}
	v := c.state().View()
	c.lsn = v.LSN()
	cron := v.Cron(c.owned(name))
	if cron == nil {
		return errNoCron
	}
	c.out = appendCron(c.out[:0], cron.For(c.viewer()))
	return c.send()
}

// listCrons is GET /v1/crons.
func (s *queues) listCrons(c *call) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	limit, after, err := s.readNamePage(values)
	if err != nil {
		return err
	}
	built, err := s.page(c)
	if err != nil {
		return err
	}
	v := c.state().View()
	c.lsn = v.LSN()
	var crons []*fsm.Cron
	bytes, more := 0, false
	v.Crons(after.from(), func(cron *fsm.Cron) bool {
		if more = len(crons) == limit || len(crons) > 0 && bytes >= s.cfg.Limits.ListBytes; more {
			return false
		}
		crons = append(crons, cron)
		bytes += cronBytes(cron)
		return true
	})
	built()
	c.out = append(c.out[:0], `{"crons":[`...)
	show := func(b []byte, cron *fsm.Cron) []byte { return appendCron(b, cron.For(c.viewer())) }
	if err := sendItems(c, crons, cronBytes, show); err != nil {
		return err
	}
	if more {
		c.out = text(c.out, "nextCursor", nameCursorOf(crons[len(crons)-1].Name))
	}
	c.out = append(lsnText(c.out, c.lsn), '}')
	return c.send()
}

// cronBytes estimates the bytes of a schedule in a list.
func cronBytes(cron *fsm.Cron) int { return len(cron.Job.Payload) + shortJob }

// appendCron appends a v1.Cron.
func appendCron(b []byte, cron *fsm.Cron) []byte {
	b = text(append(b, '{'), "name", cron.Name)
	b = text(b, "spec", cron.Spec)
	b = textIf(b, "timeZone", cron.TimeZone)
	b = appendNewJob(key(b, "job"), cron.Job)
	if cron.Overlap != fsm.OverlapAllow {
		b = text(b, "overlap", cron.Overlap.String())
	}
	if cron.Missed != fsm.MissedSkip {
		b = text(b, "missed", cron.Missed.String())
	}
	b = flagIf(b, "paused", cron.Paused)
	b = numberIf(b, "nextAt", cron.NextAt)
	b = number(b, "createdAt", cron.CreatedAt)
	b = number(b, "updatedAt", cron.UpdatedAt)
	b = numberIf(b, "lastAt", cron.LastAt)
	b = textIf(b, "lastJobId", cron.LastJobID)
	b = textIf(b, "lastError", cron.LastError)
	b = number(b, "fired", int64(cron.Fired))
	b = number(b, "skipped", int64(cron.Skipped))
	return append(number(b, "missedCount", int64(cron.MissedCount)), '}')
}

// appendNewJob appends the v1.NewJob of a schedule. The getters handle absent fields and a nil
// job.
func appendNewJob(b []byte, j *fsmpb.NewJob) []byte {
	b = append(b, '{')
	b = textIf(b, "type", j.GetType())
	b = opaqueIf(b, "payload", j.GetPayload())
	b = numberIf(b, "priority", int64(j.GetPriority()))
	if j != nil && j.MaxAttempts != nil {
		b = number(b, "maxAttempts", int64(*j.MaxAttempts))
	}
	b = numberIf(b, "leaseMs", j.GetLeaseMs())
	if o := j.GetBackoff(); o.GetKind() != 0 {
		b = appendBackoff(key(b, "backoff"), fsm.Backoff{
			Kind: fsm.BackoffKind(o.Kind), BaseMs: o.BaseMs, CapMs: o.CapMs, Jitter: uint8(o.JitterPercent),
		})
	}
	b = numberIf(b, "timeoutMs", j.GetTimeoutMs())
	b = textIf(b, "group", j.GetGroup())
	b = textsIf(b, "tags", j.GetTags())
	b = appendNewHeaders(b, j.GetHeaders())
	if u := j.GetUnique(); u.GetKey() != "" {
		b = text(b, "uniqueKey", u.Key)
		b = textIf(b, "uniqueScope", fsm.UniqueScope(u.Scope).String())
		b = numberIf(b, "uniqueMs", u.PeriodMs)
	}
	return append(b, '}')
}
