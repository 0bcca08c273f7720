package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

func TestEnqueueKeepsPayloadsByteForByte(t *testing.T) {
	for _, payload := range []string{
		`{ "a" : 1.0 , "b":[1,  2], "a":2 }`, `"\u00e9\/\ud83d"`, `1e400`, `null`, `""`, `-0`, `[]`, "{\n\t}",
		`"юникод 🚀"`, `12345678901234567890123`,
	} {
		g := newRig(t)
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","payload": `+payload+` }`))
		if got := string(g.node.Job("a").Payload()); got != payload {
			t.Errorf("stored %q, want %q", got, payload)
		}
		got := g.claim1()
		if string(got.Payload) != payload {
			t.Errorf("claimed %q, want %q", got.Payload, payload)
		}
		if a := g.do("GET", "/v1/jobs/a", ""); !strings.Contains(string(a.body), `"payload":`+payload+`,`) {
			t.Errorf("shown %s, want %s", a.body, payload)
		}
		if a := g.do("GET", "/v1/jobs", ""); !strings.Contains(string(a.body), `"payload":`+payload+`,`) {
			t.Errorf("listed %s, want %s", a.body, payload)
		}
	}
}

func TestEnqueueTellsAbsentFromNull(t *testing.T) {
	g := newRig(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"none"}`))
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"null","payload":null}`))
	if p := g.node.Job("none").Payload(); p != nil {
		t.Errorf("absent became %q", p)
	}
	if p := g.node.Job("null").Payload(); string(p) != "null" {
		t.Errorf("null became %q", p)
	}
	// Elsewhere null is absent.
	a := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":null,"type":null,"maxAttempts":null,"priority":null,"runAt":null}`))
	j := g.node.Job(a.JobID)
	if j == nil || j.Type != "" || j.MaxAttempts != fsm.MaxAttemptsUnset || j.Status != fsm.Unclaimed {
		t.Errorf("stored %+v", j)
	}
}

func TestEnqueueMembers(t *testing.T) {
	g := newRig(t)
	a := g.do("POST", "/v1/jobs", fmt.Sprintf(
		`{"id":"j/1","type":"t","priority":-5,"runAt":%d,"maxAttempts":0,"leaseMs":1500}`, startMs+60_000))
	out := ok[v1.Enqueued](t, a)
	j := g.node.Job("j/1")
	if j.Type != "t" || j.Priority != -5 || j.RunAt != startMs+60_000 || j.MaxAttempts != 0 || j.Execution().LeaseMs != 1500 ||
		j.Status != fsm.Scheduled {
		t.Fatalf("stored %+v", j)
	}
	if out.LSN != "3-2" || a.header.Get(v1.HeaderLSN) != "3-2" {
		t.Fatalf("lsn %q, header %q", out.LSN, a.header.Get(v1.HeaderLSN))
	}
	if a := g.do("GET", "/v1/jobs/j%2F1", ""); ok[v1.Job](t, a).ID != "j/1" {
		t.Fatalf("shown %s", a.body)
	}
	out = ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"delayMs":5000}`))
	if j := g.node.Job(out.JobID); j.RunAt != startMs+5000 || len(out.JobID) != 36 {
		t.Fatalf("stored %+v", j)
	}
}

func TestEnqueueAgain(t *testing.T) {
	g := newRig(t)
	const body = `{"id":"a","type":"t","payload":{"n":1}}`
	if ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body)).Duplicate {
		t.Fatal("the first is a duplicate")
	}
	if !ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body)).Duplicate {
		t.Fatal("the second is no duplicate")
	}
	p := refused(t, g.do("POST", "/v1/jobs", `{"id":"a","type":"other"}`), http.StatusConflict, v1.TagIDTaken)
	if p.Committed != v1.CommittedNo {
		t.Fatalf("committed %q", p.Committed)
	}
}

func TestEnqueueBatch(t *testing.T) {
	g := newRig(t)
	out := ok[v1.BatchEnqueued](t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"a"},{"type":"t"},{"id":"c","payload":[]}]}`))
	if len(out.JobIDs) != 3 || out.JobIDs[0] != "a" || out.JobIDs[2] != "c" || len(out.JobIDs[1]) != 36 || out.LSN == "" {
		t.Fatalf("got %+v", out)
	}
	out = ok[v1.BatchEnqueued](t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"new"},{"id":"a"},{"id":"c","payload":[]}]}`))
	if fmt.Sprint(out.Duplicates) != "[a c]" {
		t.Fatalf("duplicates %v", out.Duplicates)
	}
	// All or none.
	p := refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"x"},{"id":"y"},{"id":"a","type":"z"}]}`),
		http.StatusConflict, v1.TagIDTaken)
	if p.Index == nil || *p.Index != 2 || !strings.Contains(p.Detail, "jobs[2]") {
		t.Fatalf("problem %+v", p)
	}
	if g.node.Job("x") != nil || g.node.Job("y") != nil {
		t.Fatal("a part of a refused batch is there")
	}
	p = refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{},{"leaseMs":-1}]}`), http.StatusBadRequest, v1.TagBadRequest)
	if p.Index == nil || *p.Index != 1 {
		t.Fatalf("problem %+v", p)
	}
}

func TestEnqueueBatchLimit(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.BatchJobs = 3 })
	ok[v1.BatchEnqueued](t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{},{},{}]}`))
	p := refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{},{},{},{}]}`), http.StatusRequestEntityTooLarge, v1.TagTooLarge)
	if !strings.Contains(p.Detail, "at most 3") {
		t.Fatalf("detail %q", p.Detail)
	}
	refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[]}`), http.StatusBadRequest, v1.TagBadRequest)
	refused(t, g.do("POST", "/v1/jobs/batch", `{}`), http.StatusBadRequest, v1.TagBadRequest)
}
