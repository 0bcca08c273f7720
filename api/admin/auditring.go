package admin

import (
	"net/http"
	"strconv"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

func (s *admin) auditRoutes() []core.Route {
	return []core.Route{{Method: http.MethodGet, Path: v1.PathAudit, At: core.AnyNode, Handle: s.showAudit, Params: []string{v1.ParamCursor, v1.ParamLimit}}}
}

// auditPage is the largest and the default number of entries of an answer.
const auditPage = 1000

// showAudit is GET /v1/audit.
func (s *admin) showAudit(c *core.Call) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	limit := auditPage
	if given := values.Get(v1.ParamLimit); given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > auditPage {
			return core.Fail(core.BadRequest, "%s is %q; must be a number from 1 to %d", v1.ParamLimit, core.Shown(given), auditPage)
		}
	}
	out, err := s.Audited.Page(values.Get(v1.ParamCursor), limit)
	if err != nil {
		return err
	}
	out.Node = s.Name
	return c.SendJSON(out)
}
