// Package queues shows and changes the settings of types, limits by key, and schedules. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package queues

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/figures"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
	"osqueue/internal/limit"
)

// queues is about types and schedules.
type queues struct{ *core.Core }

// Routes returns the operations of the package.
func Routes(c *core.Core) []core.Route {
	s, queue, lim, cron := &queues{c}, core.ByType(v1.PathQueues), core.ByName(v1.PathLimits), core.ByName(v1.PathCrons)
	page := []string{v1.ParamLimit, v1.ParamCursor, v1.ParamSort}
	const get, put, post, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	return []core.Route{
		{Method: get, Path: v1.PathQueues, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.listQueues, Params: page},
		{Method: get, Path: queue, At: core.UpToDate, Right: auth.Read, Past: true, Handle: named((*core.Call).JobType, s.showQueue)},
		{Method: http.MethodPatch, Path: queue, At: core.LeaderOnly, Right: auth.Manage, Handle: core.With(s.changeQueue)},
		{Method: del, Path: queue, At: core.LeaderOnly, Right: auth.Manage, Handle: named((*core.Call).JobType, s.resetQueue)},
		{Method: post, Path: queue + "/" + v1.ActionPause, At: core.LeaderOnly, Right: auth.Manage, Handle: named((*core.Call).NewJobType, s.pauseQueue)},
		{Method: post, Path: queue + "/" + v1.ActionResume, At: core.LeaderOnly, Right: auth.Manage, Handle: named((*core.Call).NewJobType, s.resumeQueue)},

		{Method: get, Path: v1.PathLimits, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.listLimits, Params: page[:2]},
		{Method: get, Path: lim, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.showLimit},
		{Method: put, Path: lim, At: core.LeaderOnly, Right: auth.Manage, Handle: core.With(s.putLimit)},
		{Method: del, Path: lim, At: core.LeaderOnly, Right: auth.Manage, Handle: s.deleteLimit},
		{Method: post, Path: lim + "/" + v1.ActionHold, At: core.LeaderOnly, Right: auth.Manage, Handle: core.With(s.holdLimit)},

		{Method: get, Path: v1.PathCrons, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.listCrons, Params: page[:2]},
		{Method: get, Path: cron, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.showCron},
		{Method: put, Path: cron, At: core.LeaderOnly, Right: auth.Manage, Handle: core.With(s.putCron)},
		{Method: del, Path: cron, At: core.LeaderOnly, Right: auth.Manage, Handle: s.deleteCron},
		{Method: post, Path: cron + "/" + v1.ActionPause, At: core.LeaderOnly, Right: auth.Manage, Handle: s.pauseCron},
		{Method: post, Path: cron + "/" + v1.ActionResume, At: core.LeaderOnly, Right: auth.Manage, Handle: s.resumeCron},
		{Method: post, Path: cron + "/" + v1.ActionTrigger, At: core.LeaderOnly, Right: auth.Manage, Handle: s.triggerCron},

		{
			Method: get, Path: v1.PathHistory, At: core.AnyNode, Right: auth.Read, Past: true, Handle: s.showHistory,
			Params: []string{v1.ParamType, v1.ParamMinutes},
		},
		{Method: get, Path: v1.PathScale, At: core.UpToDate, Right: auth.Read, Handle: s.showScale, Params: []string{v1.ParamTypes, v1.ParamTarget}},
	}
}

// A queue is a type of jobs. Every type exists: one without jobs and settings
// has no figures, and is in no list.

// named lets do answer calls about the type in their path, which read returns.
func named(read func(*core.Call) (string, error), do func(c *core.Call, jobType string) error) func(*core.Call) error {
	return func(c *core.Call) error {
		jobType, err := read(c)
		if err != nil {
			return err
		}
		return do(c, jobType)
	}
}

// showQueue is GET /v1/queues/{type}.
func (s *queues) showQueue(c *core.Call, jobType string) error {
	v := c.View()
	return c.SendJSON(queueOf(v, jobType, c.State().TypeStats(jobType)))
}

// listQueues is GET /v1/queues.
func (s *queues) listQueues(c *core.Call) error {
	order, err := readQueueOrder(c.Params)
	if err != nil {
		return err
	}
	limit, err := s.ReadLimit(c.Params)
	if err != nil {
		return err
	}
	after, err := order.after(c.Params.Get(v1.ParamCursor))
	if err != nil {
		return err
	}
	v := c.View()
	list := v1.QueueList{Queues: []v1.Queue{}, LSN: c.Lsn.String()}
	var last fsm.RankedType
	for t := range v.Types(order.by, after) {
		if len(list.Queues) == limit {
			list.NextCursor = order.cursor(last)
			break
		}
		last = t
		list.Queues = append(list.Queues, queueOf(v, t.Name, c.State().TypeStats(t.Name)))
	}
	return c.SendJSON(list)
}

func queueOf(v *fsm.View, name string, n fsm.TypeStats) v1.Queue {
	settings := v.Queue(name)
	q := v1.Queue{Type: name, TypeStats: core.TypeStatsOf(n), Settings: settingsOf(settings), Pause: pauseOf(settings)}
	q.OldestAt = oldestAt(v, name)
	return q
}

// oldestAt returns when the oldest available job of a type was created, or 0 if there is none.
func oldestAt(v *fsm.View, name string) (ms int64) {
	v.List(fsm.Index{Type: &name}, []fsm.Status{fsm.Unclaimed}, 0, func(j *fsm.Job) bool {
		ms = j.CreatedAt
		return false
	})
	return ms
}

// pauseOf returns the description of the pause of a type, or nil. q may be nil.
func pauseOf(q *fsm.QueueSettings) *v1.Pause {
	p := q.GetPause()
	if p == nil {
		return nil
	}
	return &v1.Pause{Reason: p.Reason, By: p.By, Since: p.SinceMs, Until: p.UntilMs}
}

// settingsOf returns the settings of a type; nil means the defaults.
func settingsOf(q *fsm.QueueSettings) v1.QueueSettings {
	if q == nil {
		return v1.QueueSettings{}
	}
	b := backoff.FromPB(q.Backoff)
	return v1.QueueSettings{
		Paused:             q.Paused,
		MaxRunning:         q.MaxRunning,
		MaxRunningPerGroup: q.MaxRunningPerGroup,
		RatePerSecond:      float64(q.RateMilli) / core.Milli,
		Burst:              q.Burst,
		AgingMs:            q.AgingMs,
		LeaseMs:            q.LeaseMs,
		TimeoutMs:          q.TimeoutMs,
		MaxAttempts:        unlessUnset(q.MaxAttempts),
		Backoff:            core.UnlessZero(v1.Backoff{Kind: b.Kind.String(), BaseMs: b.BaseMs, CapMs: b.CapMs, Jitter: int64(b.Jitter)}),
		RetainMs:           unlessUnset(q.RetainMs),
		RetainCount:        unlessUnset(q.RetainCount),
		RetainDeadMs:       q.RetainDeadMs,
		RetainDeadCount:    q.RetainDeadCount,
		MaxJobs:            q.MaxJobs,
		MaxBytes:           q.MaxBytes,
		MaxPayload:         q.MaxPayload,
	}
}

func unlessUnset(n int64) *int64 {
	if n == fsm.Unset {
		return nil
	}
	return &n
}

// changeQueue is PATCH /v1/queues/{type}.
func (s *queues) changeQueue(c *core.Call, in *v1.QueueSettings) error {
	jobType, err := c.NewJobType()
	if err != nil {
		return err
	}
	given := make(map[string]jsontext.Value)
	if err := json.Unmarshal(c.In, &given, core.Lenient); err != nil {
		return core.Fail(core.BadRequest, "the body cannot be read")
	}
	op, err := s.patchOf(in, given)
	if err != nil {
		return err
	}
	op.Name = jobType
	if op.GetPaused() {
		if op.Pause, err = s.newPause(c, &v1.NewPause{}); err != nil {
			return err
		}
	}
	return s.setQueue(c, op)
}

// pauseQueue is POST /v1/queues/{type}/pause.
func (s *queues) pauseQueue(c *core.Call, jobType string) error {
	var in v1.NewPause
	if err := c.DecodeOptional(&in); err != nil {
		return err
	}
	p, err := s.newPause(c, &in)
	if err != nil {
		return err
	}
	return s.setQueue(c, &fsmpb.SetQueue{Name: jobType, Paused: new(true), Pause: p})
}

// newPause returns the description of a new pause.
func (s *queues) newPause(c *core.Call, in *v1.NewPause) (*fsmpb.Pause, error) {
	if len(in.Reason) > fsm.PauseTextMax {
		return nil, core.Bad("reason", "has %d bytes; at most %d are allowed", len(in.Reason), fsm.PauseTextMax)
	}
	if err := core.CheckReadable("reason", in.Reason); err != nil {
		return nil, err
	}
	until, err := s.pauseEnd(in)
	if err != nil {
		return nil, err
	}
	p := &fsmpb.Pause{Reason: in.Reason, UntilMs: until}
	if c.Principal != nil {
		p.By = limit.Clip(strings.ToValidUTF8(c.Principal.ID, "\ufffd"), fsm.PauseTextMax)
	}
	return p, nil
}

// pauseEnd returns when a new pause ends; 0 is never.
func (s *queues) pauseEnd(in *v1.NewPause) (int64, error) {
	limit, now := s.Config.Limits.Delay, s.Node.Now()
	if err := core.CheckMs("forMs", in.ForMs, limit); err != nil {
		return 0, err
	}
	switch {
	case in.ForMs > 0 && in.Until != 0:
		return 0, core.Bad("forMs", "cannot be combined with until")
	case in.ForMs > 0:
		return now + in.ForMs, nil
	case in.Until == 0:
		return 0, nil
	case in.Until <= now:
		return 0, core.Bad("until", "is %d, which is in the past: the queue's time is %d", in.Until, now)
	case in.Until-now > limit.Milliseconds():
		return 0, core.Bad("until", "is more than %s in the future", limit.Round(time.Hour))
	}
	return in.Until, nil
}

// resumeQueue is POST /v1/queues/{type}/resume.
func (s *queues) resumeQueue(c *core.Call, jobType string) error {
	return s.setQueue(c, &fsmpb.SetQueue{Name: jobType, Paused: new(false)})
}

// setQueue changes settings and returns the queue after the change.
func (s *queues) setQueue(c *core.Call, op *fsmpb.SetQueue) error {
	if _, err := s.Commit(c, setQueueOf(op), nil); err != nil {
		return err
	}
	return c.SendJSON(queueOf(s.Node.View(), op.Name, s.Node.TypeStats(op.Name)))
}

func setQueueOf(op *fsmpb.SetQueue) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}}
}

// resetQueue is DELETE /v1/queues/{type}: all settings return to their defaults. The jobs stay.
// If there are no settings, this is not an error, so that the request can be repeated.
func (s *queues) resetQueue(c *core.Call, jobType string) error {
	res, err := s.Propose(c, setQueueOf(&fsmpb.SetQueue{Name: jobType, Remove: true}))
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil && res.Code != fsm.NotFound {
		return err
	}
	return c.SendDone()
}

// patch turns the fields of a merge patch into those of a mutation. err is the first error.
type patch struct {
	given map[string]jsontext.Value
	err   error
}

// number returns the requested number, or nil if it stays unchanged.
func (p *patch) number(member string, n, low, high int64) *int64 {
	value, there := p.given[member]
	switch {
	case !there:
		return nil
	case value.Kind() == jsontext.KindNull:
		unset := int64(fsm.Unset)
		return &unset
	}
	p.fault(core.CheckRange(member, n, low, high))
	return &n
}

func (p *patch) fault(err error) {
	if p.err == nil {
		p.err = err
	}
}

// rate is number for the rate.
func (p *patch) rate(member string, rate float64) *int64 {
	if p.given[member].Kind() == jsontext.KindNumber && (rate < core.RateMin || rate > core.RateMax) {
		p.fault(core.Bad(member, "is %v; must be from %v to %d, or null for no limit", rate, core.RateMin, core.RateMax))
	}
	return p.number(member, int64(math.Round(min(max(rate, 0), core.RateMax)*core.Milli)), 0, core.RateMax*core.Milli)
}

func (p *patch) flag(member string, on bool) *bool {
	if _, there := p.given[member]; !there {
		return nil
	}
	return &on
}

// backoff returns the requested backoff as a whole: its fields are not merged with the old
// ones.
func (p *patch) backoff(member string, l *core.Limits, in *v1.Backoff) *fsmpb.Backoff {
	if _, there := p.given[member]; !there {
		return nil
	}
	if in == nil {
		return &fsmpb.Backoff{} // of no kind: the default
	}
	b, err := l.ReadBackoff(member, in)
	p.fault(err)
	return b
}

// patchOf returns the requested changes of the settings. given are the fields of the body.
func (s *queues) patchOf(in *v1.QueueSettings, given map[string]jsontext.Value) (*fsmpb.SetQueue, error) {
	l, p := &s.Config.Limits, patch{given: given}
	lease, delay := l.Lease.Milliseconds(), l.Delay.Milliseconds()
	op := &fsmpb.SetQueue{
		Paused:             p.flag("paused", in.Paused),
		MaxRunning:         p.number("maxRunning", in.MaxRunning, 0, math.MaxInt64),
		MaxRunningPerGroup: p.number("maxRunningPerGroup", in.MaxRunningPerGroup, 0, math.MaxInt64),
		RateMilli:          p.rate("ratePerSecond", in.RatePerSecond),
		Burst:              p.number("burst", in.Burst, 1, core.BurstMax),
		AgingMs:            p.number("agingMs", in.AgingMs, 0, delay),
		LeaseMs:            p.number("leaseMs", in.LeaseMs, 0, lease),
		TimeoutMs:          p.number("timeoutMs", in.TimeoutMs, 0, delay),
		MaxAttempts:        p.number("maxAttempts", valueOr0(in.MaxAttempts), 0, core.AttemptsMax),
		Backoff:            p.backoff("backoff", l, in.Backoff),
		RetainMs:           p.number("retainMs", valueOr0(in.RetainMs), 0, delay),
		RetainCount:        p.number("retainCount", valueOr0(in.RetainCount), 0, math.MaxInt64),
		RetainDeadMs:       p.number("retainDeadMs", valueOr0(in.RetainDeadMs), 0, delay),
		RetainDeadCount:    p.number("retainDeadCount", valueOr0(in.RetainDeadCount), 0, math.MaxInt64),
		MaxJobs:            p.number("maxJobs", in.MaxJobs, 0, math.MaxInt64),
		MaxBytes:           p.number("maxBytes", in.MaxBytes, 0, math.MaxInt64),
		MaxPayload:         p.number("maxPayload", in.MaxPayload, 0, math.MaxInt64),
	}
	return op, p.err
}

func valueOr0(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// historyMinutes is the default of v1.ParamMinutes.
const historyMinutes = 60

// showHistory is GET /v1/stats/history.
func (s *queues) showHistory(c *core.Call) error {
	n := historyMinutes
	if given := c.Params.Get(v1.ParamMinutes); given != "" {
		var err error
		if n, err = strconv.Atoi(given); err != nil || n < 1 || n > figures.HistoryMinutes {
			return core.Fail(core.BadRequest, "%s is %q; must be a number from 1 to %d", v1.ParamMinutes, core.Shown(given), figures.HistoryMinutes)
		}
	}
	name := c.Params.Get(v1.ParamType)
	jobType, known := v1.QueueType(name)
	if name != "" && !known {
		return core.Fail(core.BadRequest, "%s is %q; write %s for the jobs without type", v1.ParamType, core.Shown(name), v1.QueueName(""))
	}
	minutes, from := c.View().Minutes(jobType, name == "", n)
	out := v1.History{Type: name, From: from, Minutes: make([]v1.HistoryMinute, len(minutes)), LSN: c.Lsn.String()}
	for i, m := range minutes {
		out.Minutes[i] = v1.HistoryMinute{
			Enqueued: uint64(m.Enqueued), Claimed: uint64(m.Claimed), Completed: uint64(m.Completed),
			Failed: uint64(m.Failed), Retried: uint64(m.Retried), Dead: uint64(m.Dead),
		}
	}
	return c.SendJSON(out)
}
