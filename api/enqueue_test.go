package api

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
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

// Headers go to the worker in every attempt, and every listing has them.
func TestHeaders(t *testing.T) {
	g := newRig(t)
	want := map[string]string{"traceparent": "00-1-2-01", "x.y": "\u00e9\" \n"}
	job := ok[v1.Enqueued](t, g.do(http.MethodPost, v1.PathJobs, `{"type":"t","headers":{"x.y":"é\" \n","traceparent":"00-1-2-01"}}`))
	for attempt := range 2 {
		claimed := ok[v1.ClaimedJob](t, g.do(http.MethodPost, v1.PathClaim, `{"workerId":"w"}`))
		if !maps.Equal(claimed.Headers, want) {
			t.Fatalf("attempt %d: headers %v", attempt, claimed.Headers)
		}
		if attempt == 0 {
			ok[v1.Reported](t, g.do(http.MethodPost, v1.PathJobs+"/"+job.JobID+"/fail", `{"workerId":"w","error":"no"}`))
		}
	}
	if shown := ok[v1.Job](t, g.do(http.MethodGet, v1.PathJobs+"/"+job.JobID, "")); !maps.Equal(shown.Headers, want) {
		t.Errorf("the job has %v", shown.Headers)
	}
}

// Headers are bounded and have plain names.
func TestInvalidHeaders(t *testing.T) {
	g := newRig(t)
	many := make([]string, 17)
	for i := range many {
		many[i] = `"h` + strings.Repeat("x", i) + `":""`
	}
	for _, headers := range []string{
		`{"Traceparent":"1"}`, `{"":"1"}`, `{"a b":"1"}`, `{"` + strings.Repeat("a", 65) + `":""}`,
		`{"a":"` + strings.Repeat("x", 4096) + `"}`, `{` + strings.Join(many, ",") + `}`, `{"a":1}`, `[]`,
	} {
		refused(t, g.do(http.MethodPost, v1.PathJobs, `{"headers":`+headers+`}`), http.StatusBadRequest, v1.TagBadRequest)
	}
}

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

func newReader(l core.Limits, maxBytes int64) func(string, []byte) (*fsmpb.Mutation, error) {
	return core.JobReader(l, maxBytes, nil, func() int64 { return startMs })
}

// A job from a file is the one that the same body would have made.
func TestReadJob(t *testing.T) {
	const body = ` {"type":"mail","payload":{"to": "you"},"priority":7,"delayMs":1000,"maxAttempts":0,"tags":["a"],"after":["x"],"unknown":1}`
	m, err := newReader(core.Limits{}, 0)("f1", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	jobs := m.GetEnqueue().GetJobs()
	if len(jobs) != 1 || m.Request != nil {
		t.Fatalf("%v", m)
	}
	j := jobs[0]
	if j.Id != "f1" || j.Type != "mail" || string(j.Payload) != `{"to": "you"}` || j.Priority != 7 || j.RunAtMs != startMs+1000 ||
		j.MaxAttempts == nil || *j.MaxAttempts != 0 || len(j.Tags) != 1 || len(j.After) != 1 {
		t.Fatalf("%v", j)
	}
	if m, err = newReader(core.Limits{}, 0)("f1", []byte(`{"id":"f1"}`)); err != nil || m.GetEnqueue().GetJobs()[0].Id != "f1" {
		t.Fatalf("with its own id: %v, %v", m, err)
	}
}

func TestReadJobRefuses(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct{ id, body, why string }{
		{"f1", `{"id":"f2"}`, `id is "f2"; must be "f1"`},
		{"", `{}`, "id is missing"},
		{long, `{}`, "id has 129 characters; at most 128 are allowed"},
		{"..", `{}`, "cannot be part of a path"},
		{"a b", `{}`, "visible ASCII"},
		{"f1", ``, "the body is empty"},
		{"f1", `[]`, "must be a JSON object"},
		{"f1", `{"type":`, "not valid JSON"},
		{"f1", "{\"type\":\"\xff\"}", "not UTF-8"},
		{"f1", `{"priority":"high"}`, "priority: want a whole number"},
		{"f1", `{"type":"a","type":"b"}`, "more than once"},
		{"f1", `{"delayMs":5,"runAt":1800000000000}`, "cannot be combined with runAt"},
		{"f1", `{"payload":"` + strings.Repeat("x", 100) + `"}`, "larger than 100 bytes"},
	} {
		m, err := newReader(core.Limits{}, 100)(c.id, []byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q as %q: %v, %v; want an error with %q", c.body, c.id, m, err, c.why)
		}
	}
}

// FuzzReadJob: a file is taken if and only if POST /v1/jobs takes its content.
func FuzzReadJob(f *testing.F) {
	for _, body := range []string{
		`{"type":"t","payload":{"n":[1,2.50,"x"]},"priority":-1,"maxAttempts":3,"leaseMs":1000}`, `{"id":"f1"}`, `{"id":"other"}`,
		`{"runAt":1800000000000,"backoff":{"kind":"linear","baseMs":1}}`, `{"uniqueKey":"k","uniqueScope":"period","uniqueMs":5}`,
		`{"payload":{"x":1,"x":2}}`, `{"tags":[""]}`, `{"delayMs":-1}`, `{`, ``, `null`, `{"id":"a","id":"b"}`, "{\"a\":\"\\ud800\"}",
	} {
		f.Add("f1", []byte(body))
	}
	f.Add("", []byte(`{}`))
	f.Add("a/b", []byte(`{}`))
	f.Fuzz(func(t *testing.T, id string, body []byte) {
		m, err := newReader(core.Limits{}, 0)(id, body)
		if err == nil && (len(m.GetEnqueue().GetJobs()) != 1 || m.GetEnqueue().Jobs[0].Id != id || id == "") {
			t.Fatalf("%q as %q is %v", body, id, m)
		}
		if err != nil && err.Error() == "" {
			t.Fatalf("%q as %q is refused without a reason", body, id)
		}
		if f := (*core.Failure)(nil); errors.As(err, &f) && slices.Equal(f.Members, []string{"/id"}) {
			return // POST has no file whose name could be wrong
		}
		g := newRig(t)
		a := g.do("POST", v1.PathJobs, string(body), "Content-Type", "application/json")
		if malformed := a.status == http.StatusBadRequest && !strings.Contains(string(a.body), "wait for each other"); malformed != (err != nil) {
			t.Fatalf("%q as %q: %v; POST answers %d %s", body, id, err, a.status, a.body)
		}
	})
}

// The reader can be used from many goroutines.
func TestReadJobConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := newReader(core.Limits{}, 0)
		for range 8 {
			go func() {
				for range 100 {
					if m, err := read("f1", []byte(`{"payload":[1]}`)); err != nil || string(m.GetEnqueue().Jobs[0].Payload) != "[1]" {
						t.Error(m, err)
					}
				}
			}()
		}
		synctest.Wait()
	})
}

// A file makes jobs of the types that files may have.
func TestTypesOfFiles(t *testing.T) {
	read := core.JobReader(core.Limits{}, 0, func(jobType string) bool { return jobType != "command" }, func() int64 { return startMs })
	if _, err := read("f", []byte(`{"type":"mail"}`)); err != nil {
		t.Error(err)
	}
	if _, err := read("f", []byte(`{"type":"command"}`)); err == nil || !strings.Contains(err.Error(), "--inbox-types") {
		t.Errorf("a program: %v", err)
	}
}
