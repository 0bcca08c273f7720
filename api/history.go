package api

import (
	"net/http"
	"strconv"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

func (s *queues) historyRoutes() []route {
	return []route{{
		method: http.MethodGet, path: v1.PathHistory, at: anyNode, past: true, handle: s.showHistory,
		params: []string{v1.ParamType, v1.ParamMinutes},
	}}
}

// historyMinutes is the default of v1.ParamMinutes.
const historyMinutes = 60

// showHistory is GET /v1/stats/history.
func (s *queues) showHistory(c *call) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	n := historyMinutes
	if given := values.Get(v1.ParamMinutes); given != "" {
		if n, err = strconv.Atoi(given); err != nil || n < 1 || n > fsm.HistoryMinutes {
			return fail(badRequest, "%s is %q; must be a number from 1 to %d", v1.ParamMinutes, shown(given), fsm.HistoryMinutes)
		}
	}
	name := values.Get(v1.ParamType)
	jobType, known := v1.QueueType(name)
	if name != "" && !known {
		return fail(badRequest, "%s is %q; write %s for the jobs without type", v1.ParamType, shown(name), v1.QueueName(""))
	}
	v := c.state().View()
	minutes, from := v.Minutes(jobType, name == "", n)
	c.lsn = v.LSN()
	out := v1.History{Type: name, From: from, Minutes: make([]v1.HistoryMinute, len(minutes)), LSN: c.lsn.String()}
	for i, m := range minutes {
		out.Minutes[i] = v1.HistoryMinute{
			Enqueued: uint64(m.Enqueued), Claimed: uint64(m.Claimed), Completed: uint64(m.Completed),
			Failed: uint64(m.Failed), Retried: uint64(m.Retried), Dead: uint64(m.Dead),
		}
	}
	return c.sendJSON(out)
}
