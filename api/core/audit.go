package core

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

// audit reports the end of a write, a refusal or an administrative act.
func (s *Core) audit(c *Call, err error) {
	if s.Access.Audit == nil && s.Audited.max == 0 {
		return
	}
	refused := c.Status == http.StatusUnauthorized || c.Status == http.StatusForbidden
	if c.Route.At != LeaderOnly && !refused && c.Route.Right&auth.Admin == 0 {
		return
	}
	if err != nil && c.Route.Right&auth.Public != 0 {
		return // strangers would fill the log
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
	e.Object = c.Name
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
	strangerBurst   = 1000
)

// refusals bounds these entries.
type refusals struct {
	Limit   *rate.Limiter
	skipped atomic.Int64 // entries since the last one that was recorded
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

// auditRing keeps the newest entries of this node's audit log. It is safe for concurrent use. The
// zero value keeps none.
type auditRing struct {
	max   int64
	start string // names this ring in cursors: the numbers begin again with each process

	mu      sync.Mutex
	bytes   int64
	first   uint64 // number of entries[0]
	entries []v1.AuditEntry
}

func NewAuditRing(size int64) *auditRing {
	return &auditRing{max: size, start: strconv.FormatInt(time.Now().UnixNano(), 36)}
}

// auditOverhead is the size of an entry without its texts.
const auditOverhead = 160

func auditSize(e *v1.AuditEntry) int64 {
	return int64(auditOverhead + len(e.Node) + len(e.Principal) + len(e.Address) + len(e.Action) + len(e.Object) + len(e.LSN) + len(e.Outcome))
}

func (r *auditRing) add(e *v1.AuditEntry) {
	size := auditSize(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, *e)
	r.bytes += size
	for len(r.entries) > 0 && r.bytes > r.max {
		r.bytes -= auditSize(&r.entries[0])
		r.entries[0] = v1.AuditEntry{}
		r.entries = r.entries[1:]
		r.first++
	}
}

// Page returns at most limit entries behind a cursor; "" is the oldest.
func (r *auditRing) Page(cursor string, limit int) (v1.AuditPage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.first
	out := v1.AuditPage{Kept: r.max, Entries: []v1.AuditEntry{}}
	if cursor != "" {
		start, number, found := strings.Cut(cursor, "-")
		n, err := strconv.ParseUint(number, 10, 64)
		if !found || err != nil {
			return out, Fail(BadRequest, "%s is %q; use the cursor of an earlier answer to %s", v1.ParamCursor, Shown(cursor), v1.PathAudit)
		}
		end := r.first + uint64(len(r.entries))
		switch {
		case start != r.start: // of an earlier process, whose entries this one does not have
		case n > end:
			return out, Fail(BadRequest, "%s is %q, which is after the newest entry", v1.ParamCursor, Shown(cursor))
		case n < r.first:
			out.Missed = r.first - n
		default:
			at = n
		}
	}
	from := r.entries[at-r.first:]
	from = from[:min(len(from), limit)]
	out.Entries = append(out.Entries, from...)
	out.NextCursor = fmt.Sprintf("%s-%d", r.start, at+uint64(len(from)))
	return out, nil
}
