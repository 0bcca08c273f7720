package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

func TestChangeOne(t *testing.T) {
	g := newRig(t)
	g.fill()
	change := func(method, path string) v1.Reported {
		t.Helper()
		a := g.do(method, "/v1/jobs/"+path, "")
		out := ok[v1.Reported](t, a)
		if out.LSN == "" || out.LSN != a.header.Get(v1.HeaderLSN) {
			t.Fatalf("%s: %s, lsn %q", path, a.body, a.header.Get(v1.HeaderLSN))
		}
		out.LSN = ""
		return out
	}
	for _, tc := range []struct {
		method, path string
		want         v1.Reported
	}{
		{"POST", "waiting/cancel", v1.Reported{Status: v1.StatusCancelled}},
		{"POST", "waiting/cancel", v1.Reported{Status: v1.StatusCancelled, Duplicate: true}},
		{"POST", "waiting/retry", v1.Reported{Status: v1.StatusUnclaimed}},
		{"POST", "waiting/retry", v1.Reported{Status: v1.StatusUnclaimed, Duplicate: true}},
		{"POST", "later/retry", v1.Reported{Status: v1.StatusUnclaimed}},
		{"POST", "dead/retry", v1.Reported{Status: v1.StatusUnclaimed}},
		{"DELETE", "done0", v1.Reported{Status: v1.StatusCompleted}},
		// It runs on until its worker stops.
		{"POST", "running/cancel", v1.Reported{Status: v1.StatusInProgress, Cancel: true}},
		{"POST", "running/cancel", v1.Reported{Status: v1.StatusInProgress, Cancel: true, Duplicate: true}},
	} {
		if got := change(tc.method, tc.path); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s %s: %+v, want %+v", tc.method, tc.path, got, tc.want)
		}
	}
	if g.node.Job("done0") != nil {
		t.Error("the job is still there")
	}
	for path, status := range map[string]string{
		"POST done1/cancel": "completed", "POST done1/retry": "completed", "DELETE running": "in_progress",
	} {
		method, path, _ := strings.Cut(path, " ")
		a := g.do(method, "/v1/jobs/"+path, "")
		p := refused(t, a, http.StatusConflict, v1.TagWrongStatus)
		if !strings.HasSuffix(p.Detail, "; it is "+status) || p.Committed != v1.CommittedNo || a.header.Get(v1.HeaderLSN) == "" {
			t.Errorf("%s %s: %s", method, path, a.body)
		}
	}
	for _, path := range []string{"POST nope/cancel", "POST nope/retry", "DELETE nope"} {
		method, path, _ := strings.Cut(path, " ")
		refused(t, g.do(method, "/v1/jobs/"+path, ""), http.StatusNotFound, v1.TagNotFound)
	}
	// A body is not needed, and does no harm.
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/waiting/cancel", `{}`))
}

func TestRetryOfATakenKey(t *testing.T) {
	g := newRig(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","uniqueKey":"k"}`))
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/cancel", ""))
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"b","uniqueKey":"k"}`))
	refused(t, g.do("POST", "/v1/jobs/a/retry", ""), http.StatusConflict, v1.TagUniqueTaken)
}

func TestChangeIDs(t *testing.T) {
	g := newRig(t)
	g.fill()
	a := g.do("POST", "/v1/jobs/cancel", `{"ids":["waiting","nope","done0","running","waiting"]}`)
	sameJSON(t, a.body, `{"count":2,"results":[{"jobId":"waiting","status":"ok"},{"jobId":"nope","status":"not_found"},`+
		`{"jobId":"done0","status":"wrong_status"},{"jobId":"running","status":"ok","cancel":true},`+
		`{"jobId":"waiting","status":"duplicate"}],"lsn":"3-18"}`)
	if out := ok[v1.Changed](t, g.do("POST", "/v1/jobs/retry", `{"ids":["waiting"]}`)); out.Count != 1 || out.Results[0].Cancel {
		t.Fatalf("got %+v", out)
	}
	if out := ok[v1.Changed](t, g.do("POST", "/v1/jobs/delete", `{"ids":["waiting"]}`)); out.Count != 1 || g.node.Job("waiting") != nil {
		t.Fatalf("got %+v", out)
	}
}

func TestChangeByFilter(t *testing.T) {
	g := newRig(t)
	for i := range 5 {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", fmt.Sprintf(`{"id":"j%d","type":"t","group":"g%d","tags":["x"]}`, i, i%2)))
	}
	g.submit("other", "")
	cancelled := func() (ids []string) {
		g.node.View().Jobs(fsm.Cancelled, 0, func(j *fsm.Job) bool { ids = append(ids, j.ID); return true })
		return ids
	}
	a := g.do("POST", "/v1/jobs/cancel", `{"filter":{"tag":"x","group":"g0","statuses":["unclaimed","scheduled"]}}`)
	sameJSON(t, a.body, `{"count":3,"lsn":"3-8"}`)
	if got := fmt.Sprint(cancelled()); got != "[j0 j2 j4]" {
		t.Fatalf("cancelled %s", got)
	}
	// The type "" is one like any other.
	if out := ok[v1.Changed](t, g.do("POST", "/v1/jobs/delete", `{"filter":{"type":""}}`)); out.Count != 1 || g.node.Job("other") != nil {
		t.Fatalf("got %+v", out)
	}
	// Piece by piece, from where the last call stopped.
	var counts []uint64
	cursor := ""
	for range 9 {
		out := ok[v1.Changed](t, g.do("POST", "/v1/jobs/delete", `{"filter":{"all":true},"limit":2,"cursor":"`+cursor+`"}`))
		counts = append(counts, out.Count)
		if cursor = out.NextCursor; cursor == "" {
			break
		}
	}
	if fmt.Sprint(counts) != "[2 2 1]" || g.node.View().Counts() != (fsm.Counts{}) {
		t.Fatalf("deleted %v, left %v", counts, g.node.View().Counts())
	}
}

// A change that could hit everything by mistake does nothing.
func TestChangeOfEverythingMustBeSaid(t *testing.T) {
	g := newRig(t)
	g.fill()
	before := g.node.written()
	for body, member := range map[string]string{
		`{}`:                                      "ids",
		`{"ids":[]}`:                              "ids",
		`{"filter":{}}`:                           "filter",
		`{"filter":null}`:                         "ids",
		`{"filter":{"statuses":[],"tag":""}}`:     "filter",
		`{"filter":{"type":null}}`:                "filter",
		`{"filter":{"all":false}}`:                "filter",
		`{"filter":{"all":true,"tag":"x"}}`:       "filter.all",
		`{"filter":{"all":true},"ids":["a"]}`:     "filter",
		`{"filter":{"workerId":""}}`:              "filter.workerId",
		`{"ids":["a"],"limit":5}`:                 "limit",
		`{"ids":["a"],"cursor":"AwEF"}`:           "cursor",
		`{"filter":{"all":true},"cursor":"junk"}`: "cursor",
	} {
		for _, path := range []string{"/v1/jobs/cancel", "/v1/jobs/retry", "/v1/jobs/delete"} {
			p := refused(t, g.do("POST", path, body), http.StatusBadRequest, v1.TagBadRequest)
			if !strings.HasPrefix(p.Detail, member+" ") || len(p.Members) != 1 || p.Members[0] != "/"+strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(member) {
				t.Errorf("%s %s: %+v", path, body, p)
			}
		}
	}
	if g.node.written() != before {
		t.Fatal("something was written")
	}
}

func TestChangeLimits(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.BatchJobs = 2 })
	refused(t, g.do("POST", "/v1/jobs/cancel", `{"ids":["a","b","c"]}`), http.StatusRequestEntityTooLarge, v1.TagTooLarge)
	g.fill()
	out := ok[v1.Changed](t, g.do("POST", "/v1/jobs/delete", `{"filter":{"all":true},"limit":1000000}`))
	if out.Count != 2 || out.NextCursor == "" {
		t.Fatalf("got %+v", out)
	}
}
