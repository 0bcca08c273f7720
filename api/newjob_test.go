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

// Every field of a new job reaches the machine, the worker, and the reads.
func TestEnqueueOptions(t *testing.T) {
	g := newRig(t)
	g.submit("first", "t")
	const options = `"backoff":{"kind":"exponential","baseMs":100,"capMs":5000,"jitter":20},"timeoutMs":60000,"group":"g",` +
		`"tags":["red","blue"],"uniqueKey":"k","uniqueScope":"period","uniqueMs":3600000,"after":["first","first"],"afterFailure":"run",` +
		`"batchId":"b"`
	ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"b"}`))
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","type":"t",`+options+`}`))

	out := ok[v1.Job](t, g.do("GET", "/v1/jobs/a", ""))
	want := v1.Job{
		ID: "a", Type: "t", Status: v1.StatusBlocked, CreatedAt: startMs,
		Backoff:   &v1.Backoff{Kind: v1.BackoffExponential, BaseMs: 100, CapMs: 5000, Jitter: 20},
		TimeoutMs: 60_000, Group: "g", Tags: []string{"red", "blue"},
		UniqueKey: "k", UniqueScope: v1.UniquePeriod, UniqueMs: 3_600_000,
		After: []string{"first"}, AfterFailure: v1.AfterRun, WaitsFor: []string{"first"}, BatchID: "b",
	}
	if got := fmt.Sprintf("%+v", out.Backoff); got != fmt.Sprintf("%+v", want.Backoff) {
		t.Errorf("backoff %s", got)
	}
	out.Backoff, want.Backoff = nil, nil
	if got, want := fmt.Sprintf("%+v", out), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	first := g.claim1()
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/first/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, first.Token)))
	claimed := g.claim1()
	if claimed.JobID != "a" || claimed.TimeoutMs != 60_000 || claimed.Group != "g" || fmt.Sprint(claimed.Tags) != "[red blue]" ||
		claimed.BatchID != "b" || claimed.LastError != "" {
		t.Errorf("claimed %+v", claimed)
	}
	// The next attempt gets the error of the last one.
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/fail", fmt.Sprintf(`{"workerId":"w","token":%d,"error":"boom","delayMs":0}`, claimed.Token)))
	if claimed = g.claim1(); claimed.LastError != "boom" {
		t.Errorf("claimed %+v", claimed)
	}
}

func TestEnqueueUnique(t *testing.T) {
	g := newRig(t)
	const body = `{"type":"t","uniqueKey":"k"}`
	first := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body))
	if u := g.node.Job(first.JobID).Options().Unique; u.Scope != fsm.UniqueActive || first.Duplicate {
		t.Fatalf("unique %+v, %+v", u, first)
	}
	// The answer names the holder of the key.
	again := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body))
	if !again.Duplicate || again.JobID != first.JobID {
		t.Fatalf("%+v, then %+v", first, again)
	}
	many := ok[v1.BatchEnqueued](t, g.do("POST", "/v1/jobs/batch",
		`{"jobs":[{"id":"x","type":"t","uniqueKey":"k"},{"id":"y","type":"u","uniqueKey":"k"},{"id":"z","type":"u","uniqueKey":"k"}]}`))
	if fmt.Sprint(many.JobIDs) != fmt.Sprintf("[%s y y]", first.JobID) || fmt.Sprint(many.Duplicates) != fmt.Sprintf("[%s y]", first.JobID) {
		t.Fatalf("got %+v", many)
	}
}

// put applies a mutation that no route of this test makes.
func (g *rig) put(m *fsmpb.Mutation) {
	g.t.Helper()
	res, _, err := g.node.apply(m)
	if err != nil || !res[0].Code.Done() {
		g.t.Fatalf("%v, %+v", err, res)
	}
}

func (g *rig) limitQueue(q *fsmpb.SetQueue) { g.put(setQueueOf(q)) }

// A refusal by the machine has the status of its kind, and names the item that caused it.
func TestEnqueueRefusals(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	for _, tc := range []struct {
		name, body string
		status     int
		tag        string
		retry      string
	}{
		{"waits for nobody", `{"after":["nope"]}`, 409, v1.TagNoSuchJob, ""},
		{"waits for itself", `{"id":"x","after":["x"]}`, 400, v1.TagCycle, ""},
		{"no batch", `{"batchId":"nope"}`, 409, v1.TagNoSuchBatch, ""},
		{"payload", `{"type":"small","payload":"12345678901"}`, 413, v1.TagPayloadTooLarge, ""},
		{"bytes", `{"type":"bytes","payload":"12345678901"}`, 507, v1.TagTooManyBytes, ""},
		{"jobs", `{"type":"full"}`, 429, v1.TagTooManyJobs, "1"},
		{"id", `{"id":"first","type":"other"}`, 409, v1.TagIDTaken, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			g.submit("first", "full")
			g.limitQueue(&fsmpb.SetQueue{Name: "small", MaxPayload: n(10)})
			g.limitQueue(&fsmpb.SetQueue{Name: "bytes", MaxBytes: n(10)})
			g.limitQueue(&fsmpb.SetQueue{Name: "full", MaxJobs: n(1)})
			a := g.do("POST", "/v1/jobs", tc.body)
			p := refused(t, a, tc.status, tc.tag)
			if p.Committed != v1.CommittedNo || a.header.Get("Retry-After") != tc.retry || p.Index != nil {
				t.Errorf("%s, Retry-After %q", a.body, a.header.Get("Retry-After"))
			}
			before := g.node.View().Counts()
			p = refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"good"},`+tc.body+`]}`), tc.status, tc.tag)
			if p.Index == nil || *p.Index != 1 || !strings.HasPrefix(p.Detail, "jobs[1]: ") {
				t.Errorf("problem %+v", p)
			}
			if g.node.View().Counts() != before {
				t.Error("a part of the batch is there")
			}
		})
	}
}

func TestEnqueueCycle(t *testing.T) {
	g := newRig(t)
	p := refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"a"},{"id":"b","after":["c"]},{"id":"c","after":["b"]}]}`),
		http.StatusBadRequest, v1.TagCycle)
	if p.Index == nil || *p.Index != 1 {
		t.Fatalf("problem %+v", p)
	}
	out := ok[v1.BatchEnqueued](t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"b","after":["c"]},{"id":"c"}]}`))
	if g.node.Job("b").Status != fsm.Blocked || len(out.JobIDs) != 2 {
		t.Fatalf("job %+v", g.node.Job("b"))
	}
}

// A payload may have duplicate names, but the request itself may not.
func TestRepeatedMembers(t *testing.T) {
	g := newRig(t)
	for body, want := range map[string]string{
		`{"id":"a","id":"b"}`: "/id",
		`{"payload":{"x":1,"x":2},"type":"t","backoff":{"kind":"none","kind":"fixed"},"type":"u"}`: "/backoff/kind /type",
		`{"unknown":1,"unknown":2}`:          "/unknown",
		`{"id":"a","\u0069d":"b"}`:           "/id",
		`{"tags":["a"],"tags":null}`:         "/tags",
		`{"uniqueMs":1,"x":{},"uniqueMs":5}`: "/uniqueMs",
	} {
		p := refused(t, g.do("POST", "/v1/jobs", body), http.StatusBadRequest, v1.TagBadRequest)
		if strings.Join(p.Members, " ") != want || !strings.Contains(p.Detail, "more than once") {
			t.Errorf("%s: %+v", body, p)
		}
	}
	p := refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{},{"id":"a","id":"a"}]}`), http.StatusBadRequest, v1.TagBadRequest)
	if strings.Join(p.Members, " ") != "/jobs/1/id" || !strings.Contains(p.Detail, "jobs/1/id") {
		t.Errorf("problem %+v", p)
	}
	ok[v1.BatchEnqueued](t, g.do("POST", "/v1/jobs/batch",
		`{"jobs":[{"id":"a","payload":{"x":1,"x":2}},{"id":"b","payload":[{"y":1,"y":{"z":1,"z":2}}]}]}`, "Prefer", v1.PreferStrict))
	if a, b := g.node.Job("a"), g.node.Job("b"); string(a.Payload()) != `{"x":1,"x":2}` || string(b.Payload()) != `[{"y":1,"y":{"z":1,"z":2}}]` {
		t.Fatalf("stored %s and %s", a.Payload(), b.Payload())
	}
	// What the first reading left behind does not count.
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"c","payload":{"x":1,"x":2}}`))
	if c := g.node.Job("c"); c.Type != "" {
		t.Fatalf("stored %+v", c)
	}
}

func TestBodyDepth(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.Depth = 5 })
	nested := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"payload":`+nested(4)+`}`))
	p := refused(t, g.do("POST", "/v1/jobs", `{"payload":`+nested(5)+`}`), http.StatusBadRequest, v1.TagBadRequest)
	if !strings.Contains(p.Detail, "more than 5 levels deep (at byte 15") {
		t.Fatalf("detail %q", p.Detail)
	}
	// Beside each other, and in texts, there may be any number.
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"payload":[[],[],[],[],{},{},{},"[[[[[[[\"[[[[\\"]}`))
}

// A hold ends with its period.
func TestUniquePeriod(t *testing.T) {
	g := newRig(t)
	const body = `{"uniqueKey":"k","uniqueScope":"period","uniqueMs":1000}`
	first := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body))
	if again := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body)); again.JobID != first.JobID {
		t.Fatalf("got %+v", again)
	}
	g.node.tick(time.Second)
	if again := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body)); again.Duplicate {
		t.Fatalf("got %+v", again)
	}
}
