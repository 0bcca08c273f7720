package jobs

import (
	"net/http"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

func (s *jobs) countRoutes() []core.Route {
	return []core.Route{{
		Method: http.MethodGet, Path: v1.PathCount, At: core.UpToDate, Past: true, Handle: s.countJobs, Params: listParams,
	}}
}

// countJobs is GET /v1/stats/jobs. A count by statuses and type alone is read from the sizes of
// indexes; any other looks at the jobs, like a page of their list.
func (s *jobs) countJobs(c *core.Call) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	p, err := s.readPage(c, values)
	if err != nil {
		return err
	}
	v := c.State().View()
	c.Lsn = v.LSN()
	out := v1.JobCount{LSN: c.Lsn.String()}
	if p.counted() {
		out.Count = uint64(p.sum(v))
		return c.SendJSON(out)
	}
	next := s.walk(v, &p, func(*fsm.Job) bool {
		out.Count++
		return true
	})
	if next != 0 {
		out.NextCursor = CursorOf(p.newest, next)
	}
	return c.SendJSON(out)
}

// counted reports whether sum has the number of jobs.
func (p *page) counted() bool {
	return len(p.tags) == 0 && p.batch+p.group+p.worker+p.cron+p.search == "" &&
		p.created == span{} && p.finished == span{} && p.after == 0
}

// sum returns the number of jobs with the statuses, and the type, of the page.
func (p *page) sum(v *fsm.View) (n int) {
	counts, seen := v.Counts(), map[fsm.Status]bool{}
	for _, status := range p.statuses {
		switch {
		case seen[status]:
		case p.jobType != nil:
			n += v.CountOfType(*p.jobType, status)
		default:
			n += counts.Of(status)
		}
		seen[status] = true
	}
	return n
}
