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
