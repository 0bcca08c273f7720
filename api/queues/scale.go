package queues

import (
	"math"
	"slices"
	"strings"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// Bounds and default of v1.ParamTarget.
const (
	targetMin     = time.Second
	targetMax     = 24 * time.Hour
	defaultTarget = time.Minute
)

// showScale is GET /v1/scale: how many jobs have to run at a time so that all that wait have ended after a target time. It
// takes time in proportion to the named types, or to all types.
func (s *queues) showScale(c *core.Call) error {
	target, given := defaultTarget, c.Params.Get(v1.ParamTarget)
	if given != "" {
		var err error
		if target, err = time.ParseDuration(given); err != nil || target < targetMin || target > targetMax {
			return core.Fail(core.BadRequest, "%s is %q; must be a duration from 1s to 24h, as in 60s", v1.ParamTarget, core.Shown(given))
		}
	}
	types, err := s.readTypes(c)
	if err != nil {
		return err
	}
	v := c.View()
	out := v1.Scale{TargetMs: target.Milliseconds(), LSN: c.Lsn.String()}
	if types == nil {
		for name, stats := range c.State().AllTypeStats() {
			out.Wanted += scaleOf(v, name, stats, target).Wanted
		}
		return c.SendJSON(out)
	}
	for _, name := range types {
		one := scaleOf(v, name, c.State().TypeStats(name), target)
		out.Wanted += one.Wanted
		out.Types = append(out.Types, one)
	}
	return c.SendJSON(out)
}

// readTypes returns the types of v1.ParamTypes, or nil for all.
func (s *queues) readTypes(c *core.Call) (types []string, err error) {
	if _, named := c.Params[v1.ParamTypes]; !named {
		return nil, nil
	}
	given := strings.Split(c.Params.Get(v1.ParamTypes), ",")
	if most := s.Config.Limits.ClaimTypes; len(given) > most {
		return nil, core.Fail(core.BadRequest, "%s has %d names; at most %d are allowed", v1.ParamTypes, len(given), most)
	}
	for _, name := range given {
		jobType, known := v1.QueueType(name)
		switch {
		case name == "" || !known:
			return nil, core.Fail(core.BadRequest, "%s has the name %q; write names separated by commas, and %s for the jobs without type",
				v1.ParamTypes, core.Shown(name), v1.QueueName(""))
		case slices.Contains(types, jobType):
			return nil, core.Fail(core.BadRequest, "%s has the name %q twice", v1.ParamTypes, core.Shown(name))
		}
		types = append(types, jobType)
	}
	return types, nil
}

// scaleOf returns what one type wants.
func scaleOf(v *fsm.View, name string, stats fsm.TypeStats, target time.Duration) v1.ScaleType {
	l := load{waiting: stats.Counts.Of(fsm.Unclaimed), running: stats.Counts.Of(fsm.InProgress)}
	out := v1.ScaleType{Type: v1.QueueName(name), Waiting: l.waiting, Running: l.running}
	if ms, ok := v.MeanRun(name); ok {
		l.run = time.Duration(ms * float64(time.Millisecond))
		out.RunMs = &ms
	}
	if q := v.Queue(name); q != nil {
		l.paused, l.most, l.rate = q.Paused, q.MaxRunning, float64(q.RateMilli)/core.Milli
	}
	out.Wanted = l.wanted(target)
	return out
}

// load is what a type has to do, and what bounds it.
type load struct {
	waiting, running int
	run              time.Duration // mean of the attempts; 0: none has ended
	paused           bool
	most             int64   // jobs that run at a time; 0: no limit
	rate             float64 // claims a second; 0: no limit
}

// wanted returns how many jobs of the type have to run at a time so that those that wait have ended after target. It is
// not below the number of those that run, so that no worker is taken away from its job, and not above the number of jobs.
// Without an attempt that has ended, it is one more than run, until the first end shows how long one takes.
func (l load) wanted(target time.Duration) int {
	waiting := l.waiting
	if l.paused {
		waiting = 0
	}
	if l.rate > 0 {
		waiting = min(waiting, int(math.Ceil(l.rate*target.Seconds())))
	}
	jobs := l.running + waiting
	n := l.running + min(waiting, 1)
	if l.run > 0 {
		n = int(min(math.Ceil(float64(jobs)*l.run.Seconds()/target.Seconds()), float64(jobs)))
	}
	if l.most > 0 {
		n = min(n, int(l.most))
	}
	return max(n, l.running)
}
