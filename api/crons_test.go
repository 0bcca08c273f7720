package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (g *rig) cron(name string) v1.Cron {
	g.t.Helper()
	return ok[v1.Cron](g.t, g.do("GET", "/v1/crons/"+name, ""))
}

// fire lets a schedule fire for the time that is due, as the leader does.
func (g *rig) fire(name string) {
	g.t.Helper()
	c := g.node.View().Cron(name)
	res, _, err := g.node.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
		Name: name, DueMs: c.NextAt, AtMs: c.NextAt, NextMs: c.NextAt + 60_000, JobId: fmt.Sprintf("%s-%d", name, c.NextAt),
	}}})
	if err != nil || res[0].Code != fsm.OK {
		g.t.Fatal(res, err)
	}
}

const cronBody = `{"spec":"30 4 * * *","timeZone":"Europe/Berlin","overlap":"skip","missed":"one","job":{"type":"t","payload":{"a":1.0, "a":2},` +
	`"priority":-3,"maxAttempts":0,"leaseMs":5000,"timeoutMs":6000,"backoff":{"kind":"exponential","baseMs":10,"capMs":99,"jitter":7},` +
	`"group":"g","tags":["x","y"],"uniqueKey":"k","uniqueScope":"period","uniqueMs":1000}}`

func TestCronIsShownAsItWasPut(t *testing.T) {
	g := newRig(t)
	put := ok[v1.CronPut](t, g.do("PUT", "/v1/crons/daily", cronBody))
	want := time.Date(2023, 11, 15, 3, 30, 0, 0, time.UTC).UnixMilli() // 4:30 in Berlin
	if put.NextAt != want || put.LSN != "3-2" {
		t.Fatalf("put %+v, want the next time at %d", put, want)
	}
	a := g.do("GET", "/v1/crons/daily", "")
	sameJSON(t, a.body, `{"name":"daily","spec":"30 4 * * *","timeZone":"Europe/Berlin","job":{"type":"t","payload":{"a":1.0, "a":2},`+
		`"priority":-3,"maxAttempts":0,"leaseMs":5000,"backoff":{"kind":"exponential","baseMs":10,"capMs":99,"jitter":7},"timeoutMs":6000,`+
		`"group":"g","tags":["x","y"],"uniqueKey":"k","uniqueScope":"period","uniqueMs":1000},"overlap":"skip","missed":"one",`+
		`"nextAt":1700019000000,"createdAt":1700000000000,"updatedAt":1700000000000,"fired":0,"skipped":0,"missedCount":0}`)
	if a.header.Get(v1.HeaderLSN) != "3-2" {
		t.Fatalf("lsn %q", a.header.Get(v1.HeaderLSN))
	}
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/plain", `{"spec":"@every 1m","job":{}}`))
	if c := g.cron("plain"); c.Overlap != "" || c.Missed != "" || c.NextAt != startMs/60_000*60_000+60_000 || c.Job.Type != "" {
		t.Fatalf("%+v", c)
	}
}

// A schedule that fires between the computation of its next time and the write of a PUT or a
// resume gets a later time; only if it does so each time does the client have to repeat the
// request.
func TestCronThatFiresDuringAWrite(t *testing.T) {
	g := newRig(t)
	times := 0
	fireFirst := func(n int) {
		times = n
		g.node.overtake = func() {
			if times--; times >= 0 {
				g.node.now = g.node.View().Cron("c").NextAt
				g.fire("c")
			}
		}
	}
	put := func(spec string) string { return `{"spec":"` + spec + `","job":{}}` }
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", put("* * * * *")))
	for i, spec := range []string{"*/1 * * * *", "0-59 * * * *"} {
		fireFirst(1 + i)
		before := g.cron("c").NextAt
		got := ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", put(spec)))
		if want := before + int64(1+i)*60_000; got.NextAt != want || g.cron("c").Spec != spec {
			t.Errorf("%s: the next time is %d, want %d; %+v", spec, got.NextAt, want, g.cron("c"))
		}
	}
	fireFirst(3)
	refused(t, g.do("PUT", "/v1/crons/c", put("* * * * *")), http.StatusServiceUnavailable, v1.TagOverloaded)
}

func TestCronRefuses(t *testing.T) {
	g := newRig(t)
	for body, says := range map[string]string{
		`{}`:                                                                  "spec",
		`{"spec":"","job":{}}`:                                                "spec is not valid: it is empty",
		`{"spec":"* * * *","job":{}}`:                                         "spec is not valid: it has 4 fields",
		`{"spec":"61 * * * *"}`:                                               `spec is not valid: minute "61"`,
		`{"spec":"0 0 30 2 *"}`:                                               "spec never fires",
		`{"spec":"TZ=UTC 0 0 * * *"}`:                                         "time zone",
		`{"spec":7}`:                                                          "spec",
		`{"spec":"@daily","timeZone":"Berlin"}`:                               `timeZone is not valid: "Berlin"`,
		`{"spec":"@daily","timeZone":"Local"}`:                                "timeZone",
		`{"spec":"@daily","overlap":"no"}`:                                    "overlap",
		`{"spec":"@daily","missed":"all"}`:                                    "missed",
		`{"spec":"@daily","job":{"id":"a"}}`:                                  "job: id",
		`{"spec":"@daily","job":{"runAt":1800000000000}}`:                     "job: runAt",
		`{"spec":"@daily","job":{"delayMs":1}}`:                               "job: delayMs",
		`{"spec":"@daily","job":{"after":["a"]}}`:                             "job: after",
		`{"spec":"@daily","job":{"afterFailure":"run"}}`:                      "job: afterFailure",
		`{"spec":"@daily","job":{"batchId":"b"}}`:                             "job: batchId",
		`{"spec":"@daily","job":{"leaseMs":-1}}`:                              "job: leaseMs",
		`{"spec":"@daily","job":{"type":"` + strings.Repeat("x", 257) + `"}}`: "job: type",
		`{"spec":"@daily","job":{"backoff":{"kind":"nope"}}}`:                 "job: backoff.kind",
		`{"spec":"` + strings.Repeat("*", 300) + `","job":{}}`:                "more than",
		`{"spec":"@daily","timeZone":"` + strings.Repeat("x", 300) + `"}`:     "timeZone",
	} {
		p := refused(t, g.do("PUT", "/v1/crons/c", body), http.StatusBadRequest, v1.TagBadRequest)
		if !strings.Contains(p.Detail, says) || len(p.Members) != 1 {
			t.Errorf("%s: %s %v, want one that says %q", body, p.Detail, p.Members, says)
		}
	}
	for _, name := range []string{"%2E", "%2e%2E", "a%00", "a%0a", "%ff", strings.Repeat("n", 257)} {
		refused(t, g.do("PUT", "/v1/crons/"+name, `{"spec":"@daily","job":{}}`), http.StatusBadRequest, v1.TagBadRequest)
	}
	if n := g.node.written(); n != 0 {
		t.Fatalf("%d writes", n)
	}
	p := refused(t, g.do("PUT", "/v1/crons/c", `{"spec":"@daily","job":{"typ":"t"},"zone":"UTC"}`, "Prefer", v1.PreferStrict),
		http.StatusBadRequest, v1.TagUnknownMember)
	if strings.Join(p.Members, " ") != "/job/typ /zone" {
		t.Fatalf("members %v", p.Members)
	}
}

func TestCronsThatAreNotThere(t *testing.T) {
	g := newRig(t)
	for _, do := range []string{"GET ", "DELETE ", "POST /pause", "POST /resume", "POST /trigger"} {
		method, action, _ := strings.Cut(do, " ")
		p := refused(t, g.do(method, "/v1/crons/c"+action, ""), http.StatusNotFound, v1.TagNotFound)
		if !strings.Contains(p.Detail, "schedule") {
			t.Errorf("%s: %s", do, p.Detail)
		}
	}
	refused(t, g.do("POST", "/v1/crons/c", ""), http.StatusMethodNotAllowed, v1.TagMethod)
}

func TestCronPauseAndResume(t *testing.T) {
	g := newRig(t)
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", `{"spec":"@every 1m","job":{},"paused":true}`))
	if c := g.cron("c"); c.NextAt != 0 || !c.Paused {
		t.Fatalf("%+v", c)
	}
	minute := int64(startMs/60_000*60_000 + 60_000)
	for range 2 { // a second time does no harm
		if p := ok[v1.CronPut](t, g.do("POST", "/v1/crons/c/resume", "")); p.NextAt != minute {
			t.Fatalf("%+v", p)
		}
	}
	g.fire("c")
	for range 2 {
		if p := ok[v1.CronPut](t, g.do("POST", "/v1/crons/c/pause", "")); p.NextAt != 0 {
			t.Fatalf("%+v", p)
		}
	}
	g.node.tick(10 * time.Minute)
	if p := ok[v1.CronPut](t, g.do("POST", "/v1/crons/c/resume", "")); p.NextAt != minute+10*60_000 {
		t.Fatalf("resumed with %+v: what has passed is not made up for", p)
	}
	c := g.cron("c")
	if c.Fired != 1 || c.LastAt != minute || c.MissedCount != 0 || c.UpdatedAt != startMs+10*60_000 {
		t.Fatalf("%+v", c)
	}
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", `{"spec":"@hourly","job":{"type":"new"}}`))
	if c = g.cron("c"); c.Fired != 1 || c.CreatedAt != startMs || c.Job.Type != "new" {
		t.Fatalf("a schedule that is replaced keeps its counters: %+v", c)
	}
	ok[v1.Done](t, g.do("DELETE", "/v1/crons/c", ""))
	refused(t, g.do("GET", "/v1/crons/c", ""), http.StatusNotFound, v1.TagNotFound)
}

func TestCronTrigger(t *testing.T) {
	g := newRig(t)
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", `{"spec":"@daily","job":{"type":"t","uniqueKey":"k"},"paused":true}`))
	first := ok[v1.Enqueued](t, g.do("POST", "/v1/crons/c/trigger", "", v1.HeaderIdempotencyKey, "once"))
	if j := g.node.Job(first.JobID); j == nil || j.Options().Cron != "c" || j.Type != "t" || first.Duplicate {
		t.Fatalf("%+v %+v", first, j)
	}
	again := g.do("POST", "/v1/crons/c/trigger", "", v1.HeaderIdempotencyKey, "once")
	if got := ok[v1.Enqueued](t, again); got != first || again.header.Get(v1.HeaderReplayed) != "true" {
		t.Fatalf("the same request again: %+v", got)
	}
	if got := ok[v1.Enqueued](t, g.do("POST", "/v1/crons/c/trigger", "")); got.JobID != first.JobID || !got.Duplicate {
		t.Fatalf("the key is held by %s: %+v", first.JobID, got)
	}
	if c := g.cron("c"); c.Fired != 2 || c.LastJobID != first.JobID || c.LastAt != startMs {
		t.Fatalf("%+v", c)
	}
	limit := int64(1)
	_, _, err := g.node.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "u", MaxJobs: &limit}}})
	if err != nil {
		t.Fatal(err)
	}
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/full", `{"spec":"@daily","job":{"type":"u"}}`))
	ok[v1.Enqueued](t, g.do("POST", "/v1/crons/full/trigger", ""))
	refused(t, g.do("POST", "/v1/crons/full/trigger", ""), http.StatusTooManyRequests, v1.TagTooManyJobs)
}

func TestCronPutTwiceWithAKey(t *testing.T) {
	g := newRig(t)
	const body = `{"spec":"@daily","job":{"type":"t"}}`
	first := ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", body, v1.HeaderIdempotencyKey, "k"))
	if got := ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", body, v1.HeaderIdempotencyKey, "k")); got != first {
		t.Fatalf("%+v, then %+v", first, got)
	}
	refused(t, g.do("PUT", "/v1/crons/other", body, v1.HeaderIdempotencyKey, "k"), http.StatusConflict, v1.TagRequestConflict)
}

func TestListCrons(t *testing.T) {
	g := newRig(t)
	empty := ok[v1.CronList](t, g.do("GET", "/v1/crons", ""))
	if empty.Crons == nil || len(empty.Crons) != 0 || empty.NextCursor != "" || empty.LSN != "3-1" {
		t.Fatalf("%+v", empty)
	}
	for _, name := range []string{"b", "a", "c%2Fd", "e", "B"} {
		ok[v1.CronPut](t, g.do("PUT", "/v1/crons/"+name, `{"spec":"@daily","job":{}}`))
	}
	var names []string
	for query := "?limit=2"; query != ""; {
		page := ok[v1.CronList](t, g.do("GET", "/v1/crons"+query, ""))
		for _, c := range page.Crons {
			names = append(names, c.Name)
		}
		query = ""
		if page.NextCursor != "" {
			query = "?limit=2&cursor=" + page.NextCursor
		}
	}
	if got := strings.Join(names, " "); got != "B a b c/d e" {
		t.Fatalf("got %s", got)
	}
	if c := g.cron("c%2Fd"); c.Name != "c/d" {
		t.Fatalf("%+v", c)
	}
	refused(t, g.do("GET", "/v1/crons?cursor=x", ""), http.StatusBadRequest, v1.TagBadRequest)
	refused(t, g.do("GET", "/v1/crons?limit=0", ""), http.StatusBadRequest, v1.TagBadRequest)
}

func TestCronPagesAreBoundedInBytes(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.ListBytes = 10 })
	for i := range 3 {
		ok[v1.CronPut](t, g.do("PUT", fmt.Sprintf("/v1/crons/%d", i), `{"spec":"@daily","job":{}}`))
	}
	if page := ok[v1.CronList](t, g.do("GET", "/v1/crons", "")); len(page.Crons) != 1 || page.NextCursor == "" {
		t.Fatalf("%d schedules, cursor %q", len(page.Crons), page.NextCursor)
	}
}
