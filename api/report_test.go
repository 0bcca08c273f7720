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
)

func TestWorkersAndTheirJobs(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.WorkerJobs = 2 })
	for _, name := range []string{"w", "v", "w/2"} {
		ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers", `{"name":"`+name+`"}`))
	}
	for i := range 3 {
		g.submit(fmt.Sprintf("j%d", i), "t")
		g.claim1()
	}
	out := ok[v1.Worker](t, g.do("GET", "/v1/workers/w", ""))
	if out.Running != 3 || fmt.Sprint(out.JobIDs) != "[j0 j1]" || out.Name != "w" || out.RegisteredAt != startMs {
		t.Fatalf("got %+v", out)
	}
	if out := ok[v1.Worker](t, g.do("GET", "/v1/workers/w%2F2", "")); out.Name != "w/2" || out.Running != 0 || out.JobIDs != nil {
		t.Fatalf("got %+v", out)
	}
	p := refused(t, g.do("GET", "/v1/workers/x", ""), http.StatusNotFound, v1.TagNotFound)
	if !strings.Contains(p.Title, "worker") {
		t.Fatalf("problem %+v", p)
	}
	list := ok[v1.WorkerList](t, g.do("GET", "/v1/workers", ""))
	if len(list.Workers) != 3 || list.Workers[1].Running != 3 || list.Workers[1].JobIDs != nil || list.NextCursor != "" {
		t.Fatalf("got %+v", list)
	}
}

func TestWorkerPages(t *testing.T) {
	g := newRig(t)
	for i := range 5 {
		ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers", fmt.Sprintf(`{"name":"w%d"}`, i)))
	}
	var names []string
	query := "?limit=2"
	for range 9 {
		out := ok[v1.WorkerList](t, g.do("GET", "/v1/workers"+query, ""))
		for _, w := range out.Workers {
			names = append(names, w.Name)
		}
		if out.NextCursor == "" {
			break
		}
		query = "?limit=2&cursor=" + out.NextCursor
		// A worker that was removed does not invalidate a cursor.
		ok[v1.WorkerAnswer](t, g.do("DELETE", "/v1/workers/"+names[len(names)-1], ""))
	}
	if fmt.Sprint(names) != "[w0 w1 w2 w3 w4]" {
		t.Fatalf("got %v", names)
	}
	for _, query := range []string{"?limit=-1", "?cursor=%21", "?cursor=AQM"} {
		refused(t, g.do("GET", "/v1/workers"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}

// A quiet worker's claims find no job, and wait until it is not quiet any more.
func TestQuietWorker(t *testing.T) {
	g := newRig(t)
	ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers", `{"name":"w","capacity":4}`))
	g.submit("a", "t")
	ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers/w/quiet", ""))
	refused(t, g.do("POST", "/v1/workers/x/quiet", ""), http.StatusNotFound, v1.TagNotFound)
	before := g.node.written()
	if a := g.do("POST", "/v1/jobs/claim", `{"workerId":"w","waitMs":50}`); string(a.body) != "{}" {
		t.Fatalf("a quiet worker got %s", a.body)
	}
	if n := g.node.written(); n != before {
		t.Errorf("its claim wrote %d mutations", n-before)
	}
	w := ok[v1.Worker](t, g.do("GET", "/v1/workers/w", ""))
	if w.Capacity != 4 || w.QuietSince != startMs || w.GoneAt != 0 {
		t.Errorf("%+v", w)
	}
	waiting := make(chan answer)
	go func() { waiting <- g.do("POST", "/v1/jobs/claim", `{"workerId":"w","waitMs":20000}`) }()
	ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers/w/unquiet", ""))
	if a := <-waiting; !strings.Contains(string(a.body), `"jobId":"a"`) {
		t.Errorf("the waiting claim got %s", a.body)
	}
}

func TestReportsWithoutTokenAlwaysSucceed(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.claim1()
	for _, path := range []string{"/v1/jobs/nope/heartbeat", "/v1/jobs/nope/complete", "/v1/jobs/a/heartbeat"} {
		a := g.do("POST", path, `{"workerId":"other"}`)
		if a.status != http.StatusNoContent || len(a.body) != 0 || a.header.Get(v1.HeaderLSN) == "" {
			t.Errorf("%s: %d %q, lsn %q", path, a.status, a.body, a.header.Get(v1.HeaderLSN))
		}
	}
	g.do("POST", "/v1/jobs/a/complete", `{"workerId":"other"}`)
	if g.node.Job("a").Status != fsm.InProgress {
		t.Fatal("another worker completed the job")
	}
	g.do("POST", "/v1/jobs/a/complete", `{"workerId":"w","result":{"x":1}}`)
	if j := g.node.Job("a"); j.Status != fsm.Completed || string(j.Execution().Result) != `{"x":1}` {
		t.Fatalf("job %+v", j)
	}
}

func TestReportsWithToken(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	j := g.claim1()
	with := func(token uint64, more string) string {
		return fmt.Sprintf(`{"workerId":"w","token":%d%s}`, token, more)
	}

	out := ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/heartbeat", with(j.Token, "")))
	if out.LSN == "" || out.Status != v1.StatusInProgress || out.Duplicate {
		t.Fatalf("got %+v", out)
	}
	for _, action := range []string{"heartbeat", "complete", "fail", "release"} {
		a := g.do("POST", "/v1/jobs/a/"+action, with(j.Token-1, ""))
		p := refused(t, a, http.StatusConflict, v1.TagStaleToken)
		if p.Committed != v1.CommittedNo || a.header.Get(v1.HeaderLSN) == "" {
			t.Errorf("%s: %s", action, a.body)
		}
		refused(t, g.do("POST", "/v1/jobs/nope/"+action, with(j.Token, "")), http.StatusNotFound, v1.TagNotFound)
	}
	out = ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", with(j.Token, `,"result":[ 1 ]`)))
	if out.Status != v1.StatusCompleted || string(g.node.Job("a").Execution().Result) != "[ 1 ]" {
		t.Fatalf("got %+v, job %+v", out, g.node.Job("a"))
	}
	out = ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", with(j.Token, `,"result":[ 1 ]`)))
	if !out.Duplicate {
		t.Fatalf("got %+v", out)
	}
}

func TestForceComplete(t *testing.T) {
	g := newRig(t)
	force := func(id, body string) answer { return g.do("POST", "/v1/jobs/"+id+"/force-complete", body) }
	for _, id := range []string{"held", "waiting", "cancelled"} {
		g.submit(id, "t")
	}
	if j := g.claim1(); j.JobID != "held" {
		t.Fatalf("got %+v", j)
	}
	g.do("POST", "/v1/jobs/cancelled/cancel", "")
	for _, id := range []string{"held", "waiting", "cancelled"} {
		out := ok[v1.Reported](t, force(id, `{"result":[ 1 ]}`))
		if j := g.node.Job(id); out.Status != v1.StatusCompleted || out.LSN == "" || out.Duplicate || string(j.Execution().Result) != "[ 1 ]" {
			t.Errorf("%s: %+v, job %+v", id, out, j)
		}
	}
	if held, waiting := g.node.Job("held"), g.node.Job("waiting"); held.Execution().Worker != "w" || waiting.Execution().Worker != "" {
		t.Errorf("workers %q and %q", held.Execution().Worker, waiting.Execution().Worker)
	}
	// The second result counts, absent as null.
	ok[v1.Reported](t, force("held", `{"result":2}`))
	if j := g.node.Job("held"); string(j.Execution().Result) != "2" {
		t.Errorf("result %s", j.Execution().Result)
	}
	ok[v1.Reported](t, force("held", `{}`))
	if j := g.node.Job("held"); j.Execution().Result != nil {
		t.Errorf("result %s", j.Execution().Result)
	}
	refused(t, force("nope", `{}`), http.StatusNotFound, v1.TagNotFound)
	refused(t, force("held", `[]`), http.StatusBadRequest, v1.TagBadRequest)
	if n := g.node.View().Meta().CompletedTotal; n != 3 {
		t.Errorf("%d completed", n)
	}
}

// The log of an attempt comes with its completion, alone or among others, and is
// shown with the job: a repeated report does not change it.
func TestLogOfACompletion(t *testing.T) {
	g := newRig(t)
	complete := map[string]func(token uint64, log string){
		"a": func(token uint64, log string) {
			ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"token":%d,"result":1,"log":%s}`, token, log)))
		},
		"b": func(token uint64, log string) {
			ok[v1.ReportedBatch](t, g.do("POST", v1.PathComplete, fmt.Sprintf(`{"jobs":[{"jobId":"b","token":%d,"log":%s}]}`, token, log)))
		},
	}
	const said, longest = `"one\nt\u0000wo \ud83d\ude00"`, fsm.LogMax
	for id, report := range complete {
		g.submit(id, "t")
		token := g.claim1().Token
		report(token, said)
		report(token, `"another"`)
		if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/"+id, "")); j.Log != "one\nt\x00wo 😀" || j.Status != v1.StatusCompleted {
			t.Errorf("job %s is %s with the log %q", id, j.Status, j.Log)
		}
	}
	for _, j := range ok[v1.JobList](t, g.do("GET", "/v1/jobs?status=completed", "")).Jobs {
		if j.Log == "" {
			t.Errorf("in the list, job %s has no log", j.ID)
		}
	}
	g.submit("c", "t")
	g.claim1()
	g.do("POST", "/v1/jobs/c/complete", `{"workerId":"w","log":"`+strings.Repeat("x", longest)+`"}`)
	if j := g.node.Job("c"); j.Status != fsm.Completed || len(j.Details().Log) != longest {
		t.Errorf("job c is %s, with %d bytes", j.Status, len(j.Details().Log))
	}
	// What is no text gets into no log, and so into no entry, which would be refused.
	g.submit("d", "t")
	g.claim1()
	g.do("POST", "/v1/jobs/d/complete", `{"workerId":"w","log":"\ud800"}`)
	if j := g.node.Job("d"); j.Details().Log != "\uFFFD" {
		t.Errorf("job d is %s with the log %q", j.Status, j.Details().Log)
	}
	refused(t, g.do("POST", "/v1/jobs/d/complete", "{\"workerId\":\"w\",\"log\":\"\xff\"}"), http.StatusBadRequest, v1.TagBadRequest)
}

func TestReportAfterTheLease(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	j := g.claim1()
	g.node.tick(31 * time.Second)
	refused(t, g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, j.Token)),
		http.StatusConflict, v1.TagLeaseExpired)
}

func TestFailAndRelease(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.ErrorBytes = 10 })
	g.submit("a", "t")
	fail := func(more string) v1.Reported {
		t.Helper()
		j := g.claim1()
		return ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/fail", fmt.Sprintf(`{"workerId":"w","token":%d%s}`, j.Token, more)))
	}
	if out := fail(`,"error":"boom"`); out.Status != v1.StatusUnclaimed || g.node.Job("a").Execution().LastError != "boom" {
		t.Fatalf("got %+v", out)
	}
	// The text is cut at a character.
	if out := fail(`,"error":"123456789ä12","delayMs":1000`); out.Status != v1.StatusScheduled ||
		g.node.Job("a").Execution().LastError != "123456789" || g.node.Job("a").RunAt != startMs+1000 {
		t.Fatalf("got %+v, job %+v", out, g.node.Job("a"))
	}
	g.node.tick(time.Second)
	j := g.claim1()
	out := ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/release", fmt.Sprintf(`{"workerId":"w","token":%d}`, j.Token)))
	if out.Status != v1.StatusUnclaimed || g.node.Job("a").Attempts != 2 {
		t.Fatalf("got %+v, job %+v", out, g.node.Job("a"))
	}
	if out := fail(`,"retryable":false`); out.Status != v1.StatusDead {
		t.Fatalf("got %+v", out)
	}
	// Without a token these are strict too: no older client knows them.
	refused(t, g.do("POST", "/v1/jobs/a/fail", `{"workerId":"w"}`), http.StatusConflict, v1.TagNotRunning)
	g.submit("b", "t")
	g.claim1()
	refused(t, g.do("POST", "/v1/jobs/b/release", `{"workerId":"x"}`), http.StatusConflict, v1.TagWrongWorker)
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/b/release", `{"workerId":"w"}`))
}

func TestBatchReports(t *testing.T) {
	g := newRig(t)
	for _, id := range []string{"a", "b", "c"} {
		g.submit(id, "t")
	}
	a, b, c := g.claim1(), g.claim1(), g.claim1()
	jobs := fmt.Sprintf(`[{"jobId":"a","token":%d},{"jobId":"b","token":%d},{"jobId":"nope","token":7},{"jobId":"c"}]`, a.Token, b.Token+9)
	for path, want := range map[string]string{
		"/v1/jobs/heartbeat": `{"results":[{"jobId":"a","status":"ok"},{"jobId":"b","status":"stale_token"},` +
			`{"jobId":"nope","status":"not_found"},{"jobId":"c","status":"ok"}],"lsn":"3-8"}`,
	} {
		sameJSON(t, g.do("POST", path, `{"workerId":"w","jobs":`+jobs+`}`).body, want)
	}
	entries := g.node.entries
	jobs = fmt.Sprintf(`[{"jobId":"a","token":%d,"result":1},{"jobId":"b","token":%d},{"jobId":"c","token":%d,"result":{"k": 2}}]`,
		a.Token, b.Token+9, c.Token)
	body := `{"workerId":"w","jobs":` + jobs + `}`
	out := ok[v1.ReportedBatch](t, g.do("POST", "/v1/jobs/complete", body))
	if s := fmt.Sprint(out.Results); s != "[{a ok false} {b stale_token false} {c ok false}]" {
		t.Fatalf("got %s", s)
	}
	if g.node.entries != entries+1 || string(g.node.Job("c").Execution().Result) != `{"k": 2}` {
		t.Fatalf("%d entries, result %s", g.node.entries-entries, g.node.Job("c").Execution().Result)
	}
	out = ok[v1.ReportedBatch](t, g.do("POST", "/v1/jobs/complete", body))
	if out.Results[0].Status != v1.ItemDuplicate {
		t.Fatalf("got %+v", out)
	}
}

func TestBatchReportsRefused(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.BatchJobs = 1 })
	for _, path := range []string{"/v1/jobs/heartbeat", "/v1/jobs/complete"} {
		refused(t, g.do("POST", path, `{"workerId":"w"}`), http.StatusBadRequest, v1.TagBadRequest)
		refused(t, g.do("POST", path, `{"jobs":[{"jobId":"a"},{"jobId":"b"}]}`), http.StatusRequestEntityTooLarge, v1.TagTooLarge)
		p := refused(t, g.do("POST", path, `{"jobs":[{"token":3}]}`), http.StatusBadRequest, v1.TagBadRequest)
		if p.Index == nil || *p.Index != 0 || !strings.Contains(p.Detail, "jobId") {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if g.node.written() != 0 {
		t.Fatal("a refused batch was written")
	}
}

func TestProgress(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.MessageBytes = 6 })
	g.submit("a", "t")
	j := g.claim1()
	said := func() *v1.Progress { t.Helper(); return ok[v1.Job](t, g.do("GET", "/v1/jobs/a", "")).Progress }
	if p := said(); p != nil {
		t.Fatalf("before anything was said: %+v", p)
	}
	g.node.tick(time.Second)
	// The message is cut at a character.
	body := fmt.Sprintf(`{"workerId":"w","token":%d,"progress":{"percent":40,"message":"12345ä","at":5}}`, j.Token)
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/heartbeat", body))
	if p := said(); *p != (v1.Progress{Percent: 40, Message: "12345", At: startMs + 1000}) {
		t.Fatalf("got %+v", p)
	}
	// The route of its own wants one, and is strict without token.
	out := ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/progress", `{"workerId":"w","progress":{"percent":0}}`))
	if p := said(); *p != (v1.Progress{At: startMs + 1000}) || out.Status != v1.StatusInProgress {
		t.Fatalf("got %+v", p)
	}
	p := refused(t, g.do("POST", "/v1/jobs/a/progress", `{"workerId":"w"}`), http.StatusBadRequest, v1.TagBadRequest)
	if !strings.HasPrefix(p.Detail, "progress is missing") {
		t.Fatalf("detail %q", p.Detail)
	}
	refused(t, g.do("POST", "/v1/jobs/a/progress", `{"workerId":"x","progress":{"percent":1}}`), http.StatusConflict, v1.TagWrongWorker)
	refused(t, g.do("POST", "/v1/jobs/nope/progress", `{"workerId":"w","progress":{"percent":1}}`), http.StatusNotFound, v1.TagNotFound)
	// A heartbeat without says nothing new.
	ok[v1.ReportedBatch](t, g.do("POST", "/v1/jobs/heartbeat", `{"workerId":"w","jobs":[{"jobId":"a","progress":{"percent":50}}]}`))
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/heartbeat", fmt.Sprintf(`{"workerId":"w","token":%d}`, j.Token)))
	if p := said(); p.Percent != 50 {
		t.Fatalf("got %+v", p)
	}
}

// A worker learns from its heartbeats that it shall stop.
func TestHeartbeatsTellOfCancellation(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.submit("b", "t")
	a, b := g.claim1(), g.claim1()
	beat := fmt.Sprintf(`{"workerId":"w","token":%d}`, a.Token)
	if out := ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/heartbeat", beat)); out.Cancel {
		t.Fatalf("got %+v", out)
	}
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/cancel", ""))
	if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/a", "")); j.CancelAt != startMs || j.Status != v1.StatusInProgress {
		t.Fatalf("got %+v", j)
	}
	if out := ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/heartbeat", beat)); !out.Cancel {
		t.Fatalf("got %+v", out)
	}
	many := fmt.Sprintf(`{"workerId":"w","jobs":[{"jobId":"a","token":%d},{"jobId":"b","token":%d},{"jobId":"a","token":7}]}`, a.Token, b.Token)
	sameJSON(t, g.do("POST", "/v1/jobs/heartbeat", many).body, `{"results":[{"jobId":"a","status":"ok","cancel":true},`+
		`{"jobId":"b","status":"ok"},{"jobId":"a","status":"stale_token"}],"lsn":"3-9"}`)
	// Any report ends the attempt of a cancelled job.
	out := ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/fail", fmt.Sprintf(`{"workerId":"w","token":%d,"error":"stopped"}`, a.Token)))
	if out.Status != v1.StatusCancelled || out.Cancel {
		t.Fatalf("got %+v", out)
	}
}

func TestFailDelays(t *testing.T) {
	for name, tc := range map[string]struct {
		member string
		status fsm.Status
		runAt  int64
	}{
		"by the backoff": {``, fsm.Scheduled, startMs + 7000},
		"null is absent": {`,"delayMs":null`, fsm.Scheduled, startMs + 7000},
		"at once":        {`,"delayMs":0`, fsm.Unclaimed, 0},
		"given":          {`,"delayMs":500`, fsm.Scheduled, startMs + 500},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","backoff":{"kind":"fixed","baseMs":7000}}`))
			j := g.claim1()
			ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/fail", fmt.Sprintf(`{"workerId":"w","token":%d%s}`, j.Token, tc.member)))
			if got := g.node.Job("a"); got.Status != tc.status || got.RunAt != tc.runAt {
				t.Fatalf("single: %s, runs at %d", got.Status, got.RunAt)
			}
			g.node.tick(10 * time.Second)
			j = g.claim1()
			ok[v1.ReportedBatch](t, g.do("POST", "/v1/jobs/fail",
				fmt.Sprintf(`{"workerId":"w","jobs":[{"jobId":"a","token":%d%s}]}`, j.Token, tc.member)))
			want := max(0, tc.runAt+10_000)
			if tc.runAt == 0 {
				want = 0
			}
			if got := g.node.Job("a"); got.Status != tc.status || got.RunAt != want {
				t.Fatalf("in a batch: %s, runs at %d", got.Status, got.RunAt)
			}
		})
	}
}

func TestGroupsOfReports(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.ErrorBytes = 10 })
	for _, id := range []string{"a", "b", "c", "d"} {
		g.submit(id, "t")
	}
	a, b, c := g.claim1(), g.claim1(), g.claim1()
	entries := g.node.entries
	body := fmt.Sprintf(`{"workerId":"w","jobs":[{"jobId":"a","token":%d,"error":"12345678901","retryable":false},`+
		`{"jobId":"nope","token":5},{"jobId":"d"},{"jobId":"b","token":%d,"error":"e"}]}`, a.Token, b.Token)
	got := g.do("POST", "/v1/jobs/fail", body, v1.HeaderIdempotencyKey, "k")
	sameJSON(t, got.body, `{"results":[{"jobId":"a","status":"ok"},{"jobId":"nope","status":"not_found"},`+
		`{"jobId":"d","status":"not_running"},{"jobId":"b","status":"ok"}],"lsn":"3-9"}`)
	if j := g.node.Job("a"); j.Status != fsm.Dead || j.Execution().LastError != "1234567890" || g.node.Job("b").Execution().LastError != "e" {
		t.Fatalf("job %+v", j)
	}
	if g.node.entries != entries+1 {
		t.Fatalf("%d entries", g.node.entries-entries)
	}
	// The whole is recognised when it is sent again.
	sameJSON(t, g.do("POST", "/v1/jobs/fail", body, v1.HeaderIdempotencyKey, "k").body, string(got.body))
	refused(t, g.do("POST", "/v1/jobs/fail", strings.Replace(body, `"e"`, `"f"`, 1), v1.HeaderIdempotencyKey, "k"),
		http.StatusConflict, v1.TagRequestConflict)

	body = fmt.Sprintf(`{"workerId":"w","jobs":[{"jobId":"c","token":%d},{"jobId":"c","token":%d}]}`, c.Token, c.Token)
	out := ok[v1.ReportedBatch](t, g.do("POST", "/v1/jobs/release", body))
	if fmt.Sprint(out.Results) != "[{c ok false} {c duplicate false}]" || g.node.Job("c").Status != fsm.Unclaimed || g.node.Job("c").Attempts != 0 {
		t.Fatalf("got %+v, job %+v", out, g.node.Job("c"))
	}
}

// An attempt that exceeds its timeout has ended, and the answer tells the worker so.
func TestReportAfterTheTimeout(t *testing.T) {
	g := newRig(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","timeoutMs":5000}`))
	j := g.claim1()
	if j.TimeoutMs != 5000 || ok[v1.Job](t, g.do("GET", "/v1/jobs/a", "")).TimeoutMs != 5000 {
		t.Fatalf("claimed %+v", j)
	}
	g.node.tick(6 * time.Second)
	refused(t, g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, j.Token)), http.StatusConflict, v1.TagTimedOut)
	shown := ok[v1.Job](t, g.do("GET", "/v1/jobs/a", ""))
	if len(shown.History) != 1 || shown.History[0].End != "timed_out" || *shown.History[0].WorkerID != "w" || shown.History[0].Number != 1 {
		t.Fatalf("history %+v", shown.History)
	}
}
