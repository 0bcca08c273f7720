package api

import (
	"context"
	"net/http"
	"sync"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/internal/auth"
)

func (s *admin) stateRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: v1.PathStats, at: upToDate, past: true, handle: s.showStats,
			params: []string{v1.ParamTypes},
		},
		{method: http.MethodGet, path: v1.PathState, at: upToDate, handle: s.showState},
		{method: http.MethodGet, path: v1.PathThrottle, at: upToDate, handle: s.showThrottle},
	}
}

// showStats is GET /v1/stats.
func (s *admin) showStats(c *call) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	v := c.state().View()
	c.lsn = v.LSN()
	out := s.stats(v)
	switch given := values.Get(v1.ParamTypes); given {
	case "", "false":
	case "true":
		out.Types = typeStats(c.state().AllTypeStats())
	default:
		return fail(badRequest, "types is %q; must be true or false", shown(given))
	}
	return c.sendJSON(out)
}

func (s *Core) stats(v *fsm.View) v1.Stats {
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

// statsFor returns the figures of the whole queue, or, for a caller that is limited to some
// types, those of the type that it lists.
func (s *Core) statsFor(c *call, v *fsm.View, jobType *string) v1.Stats {
	if jobType == nil || c.principal == nil || !c.principal.Scoped() {
		return s.stats(v)
	}
	t := typeStatsOf(c.state().TypeStats(*jobType))
	return v1.Stats{
		Total: t.Unclaimed + t.InProgress, Unclaimed: t.Unclaimed, InProgress: t.InProgress, Scheduled: t.Scheduled,
		Completed: t.Completed, Dead: t.Dead, Cancelled: t.Cancelled, Blocked: t.Blocked, Bytes: t.Bytes, LSN: v.LSN().String(),
	}
}

func typeStats(types map[string]fsm.TypeStats) map[string]v1.TypeStats {
	out := make(map[string]v1.TypeStats, len(types))
	for name, n := range types {
		out[name] = typeStatsOf(n)
	}
	return out
}

func typeStatsOf(t fsm.TypeStats) v1.TypeStats {
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

// showState is GET /state: the document, including its own LSN.
func (s *admin) showState(c *call) error {
	ctx, cancel := context.WithTimeout(c.context(), s.cfg.Timeouts.Answer)
	defer cancel()
	size := int(s.b.View().Bytes())
	leave, err := s.documentTurn(ctx, size)
	if err != nil {
		return err
	}
	defer leave()
	if err = c.holdOut(size); err != nil {
		return err
	}
	doc, err := s.b.Document(ctx)
	if err != nil {
		return err
	}
	if c.principal != nil && c.principal.Kind == auth.KindLegacy {
		if doc, err = forLegacy(doc); err != nil {
			return err
		}
	}
	c.out = doc
	if err = c.holdAnswer(); err != nil {
		return err
	}
	leave()
	return c.send()
}

// encodingMax bounds the bytes that the encoding of a document counts for besides the document.
const encodingMax = 64 << 20

// documentTurn waits until no other request encodes the document of size bytes, which takes a
// multiple of its size for a moment. The caller calls leave, once or more often, before it sends the
// document.
func (s *admin) documentTurn(ctx context.Context, size int) (leave func(), err error) {
	select {
	case s.documents <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	work := s.cfg.Inflight.Hold()
	leave = sync.OnceFunc(func() {
		work.Release()
		<-s.documents
	})
	if work.Take(min(2*size, encodingMax)) != nil {
		leave()
		return nil, fail(overBudget, "the node has too many bytes of requests and answers in memory; retry after a moment")
	}
	return leave, nil
}

// showThrottle is GET /v1/throttle-stats. The leader answers, because it writes to the bucket.
func (s *admin) showThrottle(c *call) error {
	c.lsn = s.b.View().LSN()
	if s.cfg.Throttle == nil {
		return c.sendJSON(v1.NoThrottle{})
	}
	return c.sendJSON(s.cfg.Throttle())
}
