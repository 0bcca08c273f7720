package core

import (
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

func (s *Core) Stats(v *fsm.View) v1.Stats {
	n, m := v.Counts(), v.Meta()
	return v1.Stats{
		Total:          n.Of(fsm.Unclaimed) + n.Of(fsm.InProgress),
		Unclaimed:      n.Of(fsm.Unclaimed),
		InProgress:     n.Of(fsm.InProgress),
		CompletedTotal: m.CompletedTotal,
		BrokerAddress:  m.Broker.Address,
		Scheduled:      n.Of(fsm.Scheduled),
		Completed:      n.Of(fsm.Completed),
		Dead:           n.Of(fsm.Dead),
		Cancelled:      n.Of(fsm.Cancelled),
		Blocked:        n.Of(fsm.Blocked),
		DeadTotal:      m.DeadTotal,
		CancelledTotal: m.CancelledTotal,
		Bytes:          v.Bytes(),
		Workers:        v.WorkerCount(),
		LSN:            m.LSN.String(),
	}
}

// StatsFor returns the figures of the whole queue, or, for a caller that is limited to some
// types, those of the type that it lists.
func (s *Core) StatsFor(c *Call, v *fsm.View, jobType *string) v1.Stats {
	if jobType == nil || c.Principal == nil || !c.Principal.Scoped() {
		return s.Stats(v)
	}
	t := TypeStatsOf(c.State().TypeStats(*jobType))
	return v1.Stats{
		Total: t.Unclaimed + t.InProgress, Unclaimed: t.Unclaimed, InProgress: t.InProgress, Scheduled: t.Scheduled,
		Completed: t.Completed, Dead: t.Dead, Cancelled: t.Cancelled, Blocked: t.Blocked, Bytes: t.Bytes, LSN: v.LSN().String(),
	}
}

func TypeStatsOf(t fsm.TypeStats) v1.TypeStats {
	n := &t.Counts
	return v1.TypeStats{
		Scheduled:  n.Of(fsm.Scheduled),
		Unclaimed:  n.Of(fsm.Unclaimed),
		InProgress: n.Of(fsm.InProgress),
		Completed:  n.Of(fsm.Completed),
		Dead:       n.Of(fsm.Dead),
		Cancelled:  n.Of(fsm.Cancelled),
		Blocked:    n.Of(fsm.Blocked),
		Bytes:      t.Bytes,
	}
}
