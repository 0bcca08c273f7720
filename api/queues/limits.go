package queues

import (
	"math"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Limits by key. A limit exists in every state: a key without a rule has none, and is in no list while nothing uses it.

// limitName returns the name in the path.
func limitName(c *core.Call, pattern bool) (string, error) {
	name := c.OwnedName(func(_ *fsm.View, owned string) bool { // it is in the list
		use := c.State().LimitUses(owned, 1)
		return len(use) > 0 && use[0].Name == owned
	})
	return name, core.CheckLimit("name", name, pattern)
}

// listLimits is GET /v1/limits.
func (s *queues) listLimits(c *core.Call) error {
	limit, from, err := s.ReadNamePage(c.Params)
	if err != nil {
		return err
	}
	list := v1.LimitList{Limits: []v1.LimitState{}, LSN: c.View().LSN().String()}
	uses := c.State().LimitUses(from, limit+1)
	if len(uses) > limit {
		uses = uses[:limit]
		list.NextCursor = core.NameCursorOf(uses[limit-1].Name)
	}
	for i := range uses {
		list.Limits = append(list.Limits, limitOf(c, &uses[i]))
	}
	return c.SendJSON(list)
}

// showLimit is GET /v1/limits/{name}.
func (s *queues) showLimit(c *core.Call) error {
	name, err := limitName(c, true)
	if err != nil {
		return err
	}
	c.View() // the answer has its LSN
	use := c.State().LimitUse(c.Owned(name))
	return c.SendJSON(limitOf(c, &use))
}

func limitOf(c *core.Call, u *fsm.LimitUse) v1.LimitState {
	l := v1.LimitState{
		Name: c.Named(u.Name), MaxRunning: u.Rule.GetRunning(), RatePerSecond: float64(u.Rule.GetRateMilli()) / core.Milli,
		Burst: u.Rule.GetBurst(), Running: int64(u.Running), Waiting: int64(u.Waiting), HeldUntil: u.HeldUntil,
	}
	if u.Pattern != u.Name {
		l.Pattern = c.Named(u.Pattern)
	}
	return l
}

// putLimit is PUT /v1/limits/{name}.
func (s *queues) putLimit(c *core.Call, in *v1.LimitRule) error {
	rate := int64(math.Round(in.RatePerSecond * core.Milli))
	switch {
	case in.MaxRunning < 0:
		return core.Bad("maxRunning", "is %d; must not be negative", in.MaxRunning)
	case in.RatePerSecond != 0 && (in.RatePerSecond < core.RateMin || in.RatePerSecond > core.RateMax):
		return core.Bad("ratePerSecond", "is %v; must be from %v to %d, or 0 for no limit", in.RatePerSecond, core.RateMin, core.RateMax)
	case in.Burst < 0 || in.Burst > core.BurstMax:
		return core.Bad("burst", "is %d; must be from 0 to %d", in.Burst, core.BurstMax)
	case in.Burst > 0 && rate == 0:
		return core.Bad("burst", "is %d without a rate; give ratePerSecond too", in.Burst)
	}
	return s.setLimit(c, &fsmpb.LimitRule{Running: in.MaxRunning, RateMilli: rate, Burst: in.Burst})
}

// deleteLimit is DELETE /v1/limits/{name}.
func (s *queues) deleteLimit(c *core.Call) error { return s.setLimit(c, nil) }

var errNoLimit = core.NotThere("limit", "no rule has that name; the list of limits has the names")

func (s *queues) setLimit(c *core.Call, rule *fsmpb.LimitRule) error {
	name, err := limitName(c, true)
	if err != nil {
		return err
	}
	op := &fsmpb.SetLimit{Pattern: name, Rule: rule}
	return s.CommitDone(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: op}}, errNoLimit)
}

// holdLimit is POST /v1/limits/{name}/hold.
func (s *queues) holdLimit(c *core.Call, in *v1.HoldLimit) error {
	name, err := limitName(c, false)
	if err != nil {
		return err
	}
	if in.ForMs == nil {
		return core.Bad("forMs", "is missing; 0 ends the hold")
	}
	if err := core.CheckMs("forMs", *in.ForMs, core.HoldMax); err != nil {
		return err
	}
	op := &fsmpb.ThrottleLimit{Key: name}
	if *in.ForMs > 0 {
		op.UntilMs = s.Node.Now() + *in.ForMs
	}
	return s.CommitDone(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_ThrottleLimit{ThrottleLimit: op}}, nil)
}
