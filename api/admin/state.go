package admin

import (
	"context"
	"sync"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// showStats is GET /v1/stats.
func (s *admin) showStats(c *core.Call) error {
	v := c.View()
	out := s.Stats(v)
	switch given := c.Params.Get(v1.ParamTypes); given {
	case "", "false":
	case "true":
		out.Types = typeStats(c.State().AllTypeStats())
	default:
		return core.Fail(core.BadRequest, "types is %q; must be true or false", core.Shown(given))
	}
	return c.SendJSON(out)
}

func typeStats(types map[string]fsm.TypeStats) map[string]v1.TypeStats {
	out := make(map[string]v1.TypeStats, len(types))
	for name, n := range types {
		out[name] = core.TypeStatsOf(n)
	}
	return out
}

// showState is GET /state: the jobs as legacy clients know them, and the LSN of the state.
func (s *admin) showState(c *core.Call) error {
	ctx, cancel := context.WithTimeout(c.Context(), s.Config.Timeouts.Answer)
	defer cancel()
	size := int(s.Node.View().Bytes())
	leave, err := s.documentTurn(ctx, size)
	if err != nil {
		return err
	}
	defer leave()
	if err = c.HoldOut(size); err != nil {
		return err
	}
	if c.Out, err = s.Node.Document(ctx); err != nil {
		return err
	}
	if err = c.HoldAnswer(); err != nil {
		return err
	}
	leave()
	return c.Send()
}

// encodingMax bounds the bytes that the encoding of a document counts for besides the document.
const encodingMax = 64 << 20

// documentTurn waits until no other request encodes the document of size bytes, which takes a
// multiple of its size for a moment. The caller calls leave, once or more often, before it sends the
// document.
func (s *admin) documentTurn(ctx context.Context, size int) (leave func(), err error) {
	select {
	case s.Documents <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	work := s.Config.Inflight.Hold()
	leave = sync.OnceFunc(func() {
		work.Release()
		<-s.Documents
	})
	if work.Take(min(2*size, encodingMax)) != nil {
		leave()
		return nil, core.Fail(core.OverBudget, "the node has too many bytes of requests and answers in memory; retry after a moment")
	}
	return leave, nil
}

// showThrottle is GET /v1/throttle-stats. The leader answers, because it writes to the bucket.
func (s *admin) showThrottle(c *core.Call) error {
	c.Lsn = s.Node.View().LSN()
	if s.Config.Throttle == nil {
		return c.SendJSON(v1.NoThrottle{})
	}
	return c.SendJSON(s.Config.Throttle())
}
