package api

import (
	"net/http"
	"time"

	"osqueue/internal/auth"
)

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	Time      time.Time `json:"time"`
	Principal string    `json:"principal,omitzero"`
	Address   string    `json:"address"`
	Action    string    `json:"action"` // method and route
	Object    string    `json:"object,omitzero"`
	LSN       string    `json:"lsn,omitzero"`
	Status    int       `json:"status"`
	Outcome   string    `json:"outcome"` // "ok", or the tag of the refusal
}

// audit reports the end of a write, a refusal or an administrative act.
func (s *Server) audit(c *call, err error) {
	if s.gate.Audit == nil {
		return
	}
	refused := c.status == http.StatusUnauthorized || c.status == http.StatusForbidden
	if c.route.at != leaderOnly && !refused && c.route.right&auth.Admin == 0 {
		return
	}
	if _, self := s.b.Leader(); !self && !refused && c.route.at == leaderOnly {
		return // the leader's log has it
	}
	e := AuditEntry{
		Time: time.Now().UTC(), Address: addressOf(c.r), Action: c.r.Method + " " + c.route.path,
		LSN: c.Header().Get(headerLSN), Status: c.status, Outcome: "ok",
	}
	if c.principal != nil {
		e.Principal = c.principal.ID
	}
	if c.route.pattern.variable {
		e.Object, _ = c.variable()
	}
	if err != nil {
		e.Outcome = failureOf(err).tag
	}
	s.gate.Audit(e)
}

// addressOf returns the address of the client of a request, without its port if another node
// has forwarded the request.
func addressOf(r *http.Request) string {
	if from := forwardedFor(r); from != "" {
		return from
	}
	return r.RemoteAddr
}
