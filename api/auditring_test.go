package api

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func TestAuditOverHTTP(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	g.s.Audited = core.NewAuditRing(1 << 20)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader)})
	ok[v1.Enqueued](t, g.do("POST", v1.PathJobs, `{"type":"mail","payload":"secret"}`, admin...))
	refused(t, g.do("GET", v1.PathAudit, "", reader...), http.StatusForbidden, v1.TagForbidden)
	page := ok[v1.AuditPage](t, g.do("GET", v1.PathAudit, "", admin...))
	if len(page.Entries) != 2 || page.Entries[0].Action != "POST "+v1.PathJobs || page.Entries[0].Principal == "" || page.Entries[0].LSN == "" ||
		page.Entries[1].Outcome != v1.TagForbidden || page.Node == "" || page.Kept != 1<<20 {
		t.Errorf("%+v", page)
	}
	// That request is in the log, those that follow it are not.
	for range 3 {
		if next := ok[v1.AuditPage](t, g.do("GET", v1.PathAudit+"?cursor="+page.NextCursor, "", admin...)); len(next.Entries) != 1 {
			t.Errorf("%+v", next)
		}
	}
	refused(t, g.do("GET", v1.PathAudit+"?limit=0", "", admin...), http.StatusBadRequest, v1.TagBadRequest)
}

// Strangers push no entry of another client out of the log, and their refusals are counted.
func TestStrangersInTheAuditLog(t *testing.T) {
	var lines []core.AuditEntry
	g := secured(t, core.SecurityOn, func(e core.AuditEntry) { lines = append(lines, e) })
	g.s.Audited = core.NewAuditRing(1 << 20)
	strangers := g.s.Refusals.Limit.Burst()
	g.s.Refusals.Limit = rate.NewLimiter(rate.Every(time.Hour), strangers)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader)})
	ok[v1.Enqueued](t, g.do("POST", v1.PathJobs, `{"type":"mail"}`, admin...))
	const tries = 8000
	for range tries {
		refused(t, g.do("GET", v1.PathJobs, "", "Authorization", "Bearer nonsense"), http.StatusUnauthorized, v1.TagUnauthorized)
	}
	refused(t, g.do("GET", v1.PathAudit, "", reader...), http.StatusForbidden, v1.TagForbidden) // is always recorded
	if len(lines) != 1+strangers+1 {
		t.Errorf("the log has %d lines, want %d", len(lines), 1+strangers+1)
	}
	if page := ok[v1.AuditPage](t, g.do("GET", v1.PathAudit, "", admin...)); page.Entries[0].Action != "POST "+v1.PathJobs {
		t.Errorf("the oldest entry is %+v", page.Entries[0])
	}
	g.s.Refusals.Limit = rate.NewLimiter(rate.Inf, 0)
	refused(t, g.do("GET", v1.PathJobs, ""), http.StatusUnauthorized, v1.TagUnauthorized)
	if e := lines[len(lines)-2]; e.Action != "drop entries" || e.Object != strconv.Itoa(tries-strangers) || e.Outcome != v1.TagUnauthorized {
		t.Errorf("the line about the others is %+v", e)
	}
}
