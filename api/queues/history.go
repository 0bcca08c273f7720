package queues

import (
	"net/http"
	"strconv"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

func (s *queues) historyRoutes() []core.Route {
	return []core.Route{{
		Method: http.MethodGet, Path: v1.PathHistory, At: core.AnyNode, Past: true, Handle: s.showHistory,
		Params: []string{v1.ParamType, v1.ParamMinutes},
	}}
}

// historyMinutes is the default of v1.ParamMinutes.
const historyMinutes = 60

// showHistory is GET /v1/stats/history.
func (s *queues) showHistory(c *core.Call) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	n := historyMinutes
	if given := values.Get(v1.ParamMinutes); given != "" {
		if n, err = strconv.Atoi(given); err != nil || n < 1 || n > fsm.HistoryMinutes {
			return core.Fail(core.BadRequest, "%s is %q; must be a number from 1 to %d", v1.ParamMinutes, core.Shown(given), fsm.HistoryMinutes)
		}
	}
	name := values.Get(v1.ParamType)
	jobType, known := v1.QueueType(name)
	if name != "" && !known {
		return core.Fail(core.BadRequest, "%s is %q; write %s for the jobs without type", v1.ParamType, core.Shown(name), v1.QueueName(""))
	}
	v := c.State().View()
	minutes, from := v.Minutes(jobType, name == "", n)
	c.Lsn = v.LSN()
	out := v1.History{Type: name, From: from, Minutes: make([]v1.HistoryMinute, len(minutes)), LSN: c.Lsn.String()}
	for i, m := range minutes {
		out.Minutes[i] = v1.HistoryMinute{
			Enqueued: uint64(m.Enqueued), Claimed: uint64(m.Claimed), Completed: uint64(m.Completed),
			Failed: uint64(m.Failed), Retried: uint64(m.Retried), Dead: uint64(m.Dead),
		}
	}
	return c.SendJSON(out)
}
