package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
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
		j.MaxAttempts == nil || *j.MaxAttempts != 0 || len(j.Options.GetTags()) != 1 || len(j.Options.GetAfter()) != 1 {
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
