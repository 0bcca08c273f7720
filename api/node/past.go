package node

import (
	"net/http"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/past"
)

func (s *node) pastRoutes() []core.Route {
	return []core.Route{{Method: http.MethodGet, Path: v1.PathPast, At: core.AnyNode, Handle: s.listPast}}
}

// listPast is GET /v1/past.
func (s *node) listPast(c *core.Call) error {
	if s.Config.Past == nil {
		return core.PastError(past.ErrOff)
	}
	ctx, cancel := s.Patience(c, s.Config.Timeouts.Past)
	defer cancel()
	spans, err := s.Config.Past.Spans(ctx)
	if err != nil {
		if why := s.Interrupted(c); why != nil {
			return why
		}
		return core.PastError(err)
	}
	out := v1.Past{Spans: []v1.PastSpan{}, Now: s.Node.View().Meta().Now}
	for _, span := range spans[max(0, len(spans)-core.SpansShown):] {
		out.Spans = append(out.Spans, v1.PastSpan{
			FromLSN: span.From.String(), ToLSN: span.To.String(), From: span.Since.UnixMilli(), To: span.Until.UnixMilli(),
		})
	}
	return c.SendJSON(out)
}
