package core

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
func (s *Core) audit(c *Call, err error) {
	if s.Access.Audit == nil && s.Audited.max == 0 {
		return
	}
	refused := c.Status == http.StatusUnauthorized || c.Status == http.StatusForbidden
	if c.Route.At != LeaderOnly && !refused && c.Route.Right&auth.Admin == 0 {
		return
	}
	if c.Route.Path == v1.PathSelf && c.ForwardedBy != nil {
		return // a question of another node (askLeader), whose log has the request
	}
	if err == nil && c.Route.Path == v1.PathAudit && c.Params.Get(v1.ParamCursor) != "" {
		return // a reader that follows the log would fill it
	}
	if _, self := s.Node.Leader(); !self && !refused && c.Route.At == LeaderOnly {
		return // the leader's log has it
	}
	e := AuditEntry{
		Address: c.From, Action: c.Method + " " + c.Route.Path,
		Status: c.Status, Outcome: "ok",
	}
	if !c.Lsn.IsZero() {
		e.LSN = c.Lsn.String()
	}
	if c.Principal != nil {
		e.Principal = c.Principal.ID
	}
	if c.Object != "" {
		e.Object, _ = c.Variable()
	}
	if err != nil {
		e.Outcome = FailureOf(err).Tag
	}
	s.record(e, c.admitted)
}

// auditFull is the answer to a change that the audit log could not record.
var auditFull = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "The audit log takes no entries", Retry: time.Second}

// admit refuses a change that the audit log could not record.
func (s *Core) admit(c *Call) error {
	if s.Access.AdmitChange == nil || c.Method == http.MethodGet {
		return nil
	}
	if err := s.Access.AdmitChange(c.Context()); err != nil {
		return Fail(auditFull, "%v", err)
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
	StrangerBurst   = 1000
)

// refusals bounds these entries.
type refusals struct {
	Limit   *rate.Limiter
	skipped atomic.Int64 // entries since the last one that was recorded
}

func newRefusals() *refusals {
	return &refusals{Limit: rate.NewLimiter(strangerEntries, StrangerBurst)}
}

// record adds an entry. The first one of a stranger after a gap follows a line with the number of those
// that were left out.
func (s *Core) record(e AuditEntry, admitted bool) {
	e.Time, e.Node = time.Now().UTC().Format(time.RFC3339Nano), s.Name
	if e.Principal == "" && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
		if !s.Refusals.Limit.Allow() {
			s.Refusals.skipped.Add(1)
			return
		}
		if n := s.Refusals.skipped.Swap(0); n > 0 {
			s.keep(AuditEntry{Time: e.Time, Node: e.Node, Action: "drop entries", Object: strconv.FormatInt(n, 10), Outcome: v1.TagUnauthorized}, false)
		}
	}
	s.keep(e, admitted)
}

func (s *Core) keep(e AuditEntry, admitted bool) {
	if s.Audited.max > 0 {
		s.Audited.add(&e)
	}
	if s.Access.Audit != nil {
		s.Access.Audit(e, admitted)
	}
}

// AddressOf returns the address of the client of a request, without its port if another node
// has forwarded the request.
func AddressOf(r *http.Request) string {
	if from := forwardedFor(r); from != "" {
		return from
	}
	return r.RemoteAddr
}
