package api

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

// AuditEntry is one line of the audit log.
type AuditEntry = v1.AuditEntry

// audit reports the end of a write, a refusal or an administrative act.
func (s *Core) audit(c *call, err error) {
	if s.access.Audit == nil && s.audited.max == 0 {
		return
	}
	refused := c.status == http.StatusUnauthorized || c.status == http.StatusForbidden
	if c.route.at != leaderOnly && !refused && c.route.right&auth.Admin == 0 {
		return
	}
	if c.route.path == v1.PathSelf && c.forwardedBy != nil {
		return // a question of another node (askLeader), whose log has the request
	}
	if err == nil && c.route.path == v1.PathAudit && c.params.Get(v1.ParamCursor) != "" {
		return // a reader that follows the log would fill it
	}
	if _, self := s.b.Leader(); !self && !refused && c.route.at == leaderOnly {
		return // the leader's log has it
	}
	e := AuditEntry{
		Address: c.from, Action: c.method + " " + c.route.path,
		Status: c.status, Outcome: "ok",
	}
	if !c.lsn.IsZero() {
		e.LSN = c.lsn.String()
	}
	if c.principal != nil {
		e.Principal = c.principal.ID
	}
	if c.object != "" {
		e.Object, _ = c.variable()
	}
	if err != nil {
		e.Outcome = failureOf(err).tag
	}
	s.record(e, c.admitted)
}

// auditFull is the answer to a change that the audit log could not record.
var auditFull = kind{status: http.StatusServiceUnavailable, tag: v1.TagOverloaded, title: "The audit log takes no entries", retry: time.Second}

// admit refuses a change that the audit log could not record.
func (s *Core) admit(c *call) error {
	if s.access.AdmitChange == nil || c.method == http.MethodGet {
		return nil
	}
	if err := s.access.AdmitChange(c.context()); err != nil {
		return fail(auditFull, "%v", err)
	}
	c.admitted = true
	return nil
}

// Record puts an entry about an act outside of the routes of this package into the audit log. It
// sets the time and the node.
func (s *Core) Record(e AuditEntry) { s.record(e, false) }

// Bounds of the entries about refused requests of strangers. Without them a stranger could push all
// other entries out of the log, which keeps the newest.
const (
	strangerEntries = 1 // a second
	strangerBurst   = 1000
)

// refusals bounds these entries.
type refusals struct {
	limit   *rate.Limiter
	skipped atomic.Int64 // entries since the last one that was recorded
}

func newRefusals() *refusals {
	return &refusals{limit: rate.NewLimiter(strangerEntries, strangerBurst)}
}

// record adds an entry. The first one of a stranger after a gap follows a line with the number of those
// that were left out.
func (s *Core) record(e AuditEntry, admitted bool) {
	e.Time, e.Node = time.Now().UTC().Format(time.RFC3339Nano), s.node
	if e.Principal == "" && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
		if !s.refusals.limit.Allow() {
			s.refusals.skipped.Add(1)
			return
		}
		if n := s.refusals.skipped.Swap(0); n > 0 {
			s.keep(AuditEntry{Time: e.Time, Node: e.Node, Action: "drop entries", Object: strconv.FormatInt(n, 10), Outcome: v1.TagUnauthorized}, false)
		}
	}
	s.keep(e, admitted)
}

func (s *Core) keep(e AuditEntry, admitted bool) {
	if s.audited.max > 0 {
		s.audited.add(&e)
	}
	if s.access.Audit != nil {
		s.access.Audit(e, admitted)
	}
}

// addressOf returns the address of the client of a request, without its port if another node
// has forwarded the request.
func addressOf(r *http.Request) string {
	if from := forwardedFor(r); from != "" {
		return from
	}
	return r.RemoteAddr
}
