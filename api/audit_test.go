package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"osqueue/api/core"
	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
)

// Strangers push no entry of another client out of the log, and their refusals are counted.
func TestStrangersInTheAuditLog(t *testing.T) {
	t.Parallel()
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

// actors returns the kinds and actors of the events about a job or a name.
func (g *rig) actors(id string) string {
	events, _ := g.node.Events().Since(notify.EventID{}, historyKept)
	var out []string
	for _, e := range events {
		if e.JobID == id || e.Name == id {
			out = append(out, core.EventKind(&e)+"="+e.Actor)
		}
	}
	return strings.Join(out, " ")
}

func idOf(head []string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(head[1], "Bearer osq_"), "_")
	return id
}

// TestActorsOfRequests: events name the caller over HTTP, a stream, the legacy listener and the
// admin socket.
func TestActorsOfRequests(t *testing.T) {
	s := newServed(t, func(cfg *core.Config) { cfg.Security.Mode = core.SecurityOn })
	s.s.Config.Legacy, s.s.Legacy = &core.LegacyConfig{API: "n1:8080"}, auth.Legacy([]string{"mail"})
	admin := s.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin), Name: "é"})
	worker := s.give(&fsmpb.Token{Role: uint32(fsm.RoleWorker)})
	byAdmin, byWorker := "token "+idOf(admin)+" (é)", "token "+idOf(worker)
	want := func(id, actors string) {
		t.Helper()
		if got := s.actors(id); got != actors {
			t.Errorf("%s: %q, want %q", id, got, actors)
		}
	}
	served := func(h http.Handler, r *http.Request) {
		t.Helper()
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", r.URL, w.Code, w.Body)
		}
	}
	job := func(id string) *http.Request {
		return httptest.NewRequest(http.MethodPost, v1.PathJobs, strings.NewReader(`{"id":"`+id+`","type":"mail"}`))
	}

	ok[v1.Enqueued](t, s.do("POST", v1.PathJobs, `{"id":"http","type":"mail"}`, admin...))
	ok[v1.ClaimedJob](t, s.do("POST", v1.PathClaim, `{"workerId":"w","types":["mail"],"waitMs":1000}`, worker...))
	if a := s.do("POST", v1.PathJobs+"/http/complete", `{"workerId":"w"}`, worker...); a.status != http.StatusNoContent {
		t.Fatalf("the report: %d %s", a.status, a.body)
	}
	want("http", "job.enqueued="+byAdmin+" job.claimed="+byWorker+" job.completed="+byWorker)
	s.do("PUT", v1.PathCrons+"/c", `{"spec":"@hourly","job":{"type":"mail"}}`, admin...)
	want("c", "cron.put="+byAdmin)

	c := newStreamClient(t, s.addr, strings.TrimPrefix(admin[1], "Bearer "))
	if _, err := c.Enqueue(t.Context(), client.NewJob{ID: "stream", Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	want("stream", "job.enqueued="+byAdmin)

	r := job("legacy")
	r = r.WithContext(context.WithValue(r.Context(), connKey{}, &boundedConn{legacy: true}))
	served(outside(s.s.identified(s.s)), r)
	want("legacy", "job.enqueued=legacy")
	served(s.s.AsAdmin(), job("socket"))
	want("socket", "job.enqueued=local-admin")
}
