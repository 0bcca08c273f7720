package api

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"golang.org/x/time/rate"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// A reader sees each entry once, learns how many it has missed, and sees all of a new process.
func TestAuditRing(t *testing.T) {
	r := newAuditRing(10 * (auditOverhead + 1))
	put := func(from, to int) {
		for i := from; i < to; i++ {
			r.add(&v1.AuditEntry{Object: strconv.Itoa(i % 10)})
		}
	}
	read := func(cursor string, limit, want int, missed uint64) string {
		t.Helper()
		p, err := r.page(cursor, limit)
		if err != nil || len(p.Entries) != want || p.Missed != missed {
			t.Fatalf("%d entries, %d missed, %v; want %d and %d", len(p.Entries), p.Missed, err, want, missed)
		}
		return p.NextCursor
	}
	none := read("", 5, 0, 0)
	put(0, 7)
	at := read(none, 5, 5, 0)
	at = read(at, 5, 2, 0)
	read(at, 5, 0, 0)
	put(7, 27)
	if len(r.entries) != 10 || r.bytes > r.max {
		t.Errorf("%d entries of %d bytes", len(r.entries), r.bytes)
	}
	read(at, 100, 10, 10)
	read("other-3", 100, 10, 0)
	for _, bad := range []string{"x", "x-", "-", r.start + "-28", r.start + "--1"} {
		if _, err := r.page(bad, 1); err == nil {
			t.Errorf("the cursor %q is accepted", bad)
		}
	}
	newAuditRing(0).add(&v1.AuditEntry{}) // keeps none
}

func TestAuditOverHTTP(t *testing.T) {
	g := secured(t, SecurityOn, nil)
	g.s.audited = newAuditRing(1 << 20)
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
	var lines []AuditEntry
	g := secured(t, SecurityOn, func(e AuditEntry) { lines = append(lines, e) })
	g.s.audited = newAuditRing(1 << 20)
	g.s.refusals.limit = rate.NewLimiter(rate.Every(time.Hour), strangerBurst)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader)})
	ok[v1.Enqueued](t, g.do("POST", v1.PathJobs, `{"type":"mail"}`, admin...))
	const tries = 8000
	for range tries {
		refused(t, g.do("GET", v1.PathJobs, "", "Authorization", "Bearer nonsense"), http.StatusUnauthorized, v1.TagUnauthorized)
	}
	refused(t, g.do("GET", v1.PathAudit, "", reader...), http.StatusForbidden, v1.TagForbidden) // is always recorded
	if len(lines) != 1+strangerBurst+1 {
		t.Errorf("the log has %d lines, want %d", len(lines), 1+strangerBurst+1)
	}
	if page := ok[v1.AuditPage](t, g.do("GET", v1.PathAudit, "", admin...)); page.Entries[0].Action != "POST "+v1.PathJobs {
		t.Errorf("the oldest entry is %+v", page.Entries[0])
	}
	g.s.refusals.limit = rate.NewLimiter(rate.Inf, 0)
	refused(t, g.do("GET", v1.PathJobs, ""), http.StatusUnauthorized, v1.TagUnauthorized)
	if e := lines[len(lines)-2]; e.Action != "drop entries" || e.Object != strconv.Itoa(tries-strangerBurst) || e.Outcome != v1.TagUnauthorized {
		t.Errorf("the line about the others is %+v", e)
	}
}
