package api

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
)

// fuzzTargets are the routes that read a body, of POST unless they say another method.
var fuzzTargets = []string{
	"/v1/jobs", "/v1/jobs/batch", "/v1/jobs/claim", "/v1/jobs/heartbeat", "/v1/jobs/complete",
	"/v1/jobs/a/heartbeat", "/v1/jobs/a/complete", "/v1/jobs/a/fail", "/v1/jobs/a/release", "/v1/workers",
	"/v1/jobs/fail", "/v1/jobs/release", "/v1/jobs/a/progress", "/v1/jobs/a/force-complete", "/v1/batches",
	"/v1/jobs/cancel", "/v1/jobs/retry", "/v1/jobs/delete", "/v1/jobs/logs",
	"PUT /v1/hooks/a", "PUT /v1/crons/a", "PATCH /v1/queues/t",
}

// FuzzBodies sends any body to any route. No request may cause an internal error, every answer
// is well-formed, and a refused request changes nothing.
func FuzzBodies(f *testing.F) {
	for i, body := range []string{
		`{"id":"a","type":"t","payload":{"n":[1,2.50,"x"]},"priority":-1,"maxAttempts":3,"leaseMs":1000}`,
		`{"jobs":[{"id":"b"},{"payload":null,"delayMs":5},{"type":null,"runAt":1800000000000}]}`,
		`{"workerId":"w","types":["t",""],"max":2,"leaseMs":500,"requestId":"r"}`,
		`{"workerId":"w","jobs":[{"jobId":"a","token":4294967297}]}`,
		`{"workerId":"w","jobs":[{"jobId":"a","token":4294967297,"result":"\ud83d"}]}`,
		`{"workerId":"w","token":4294967297}`, `{"workerId":null,"result":{"a":1,"a":2}}`,
		`{"error":"boom\u0000","retryable":false,"delayMs":10}`, `{}`,
		`{"name":"w","types":["t"],"version":"1","address":"h:1"}`,
		`{"workerId":"w","jobs":[{"jobId":"a","token":4294967297,"error":"e","retryable":false,"delayMs":0}]}`,
		`{"workerId":"w","jobs":[{"jobId":"a"},{"jobId":"a","progress":{"percent":100,"message":"\ud800"}}]}`,
		`{"workerId":"w","waitMs":5,"jobs":[{"jobId":"a","token":4294967297,"offset":3,"bytes":2,"text":"\u0000é"}]}`,
		`{"workerId":"w","progress":{"percent":7,"message":"m","at":5}}`,
		`{"id":"b","jobs":[{"id":"x","after":["a","y"],"afterFailure":"run"},{"id":"y","tags":["t"],"group":"g"}],` +
			`"callback":{"type":"done"},"callbackOn":"completed"}`,
		`{"ids":["a","b","a"]}`, `{"filter":{"all":true},"limit":1,"cursor":"AwEF"}`,
		`{"filter":{"type":"t","tag":"","group":null,"statuses":["in_progress","dead"],"createdFrom":1700000000000}}`,
		`{"uniqueKey":"k","uniqueScope":"period","uniqueMs":5,"backoff":{"kind":"linear","baseMs":1,"jitter":100},"timeoutMs":9}`,
		`{"id":"a","id":"b","payload":{"x":1,"x":2}}`, `{"payload":[[[[[[{"a":[]}]]]]]]}`,
		`{"url":"https://a.example/x","on":["job.*","queue.stuck"],"types":["t*"],"secret":"whsec_","oldestAgeMs":1,"bufferBytes":-1}`,
		`{"spec":"*/5 * * * *","timezone":"Europe/Berlin","job":{"type":"t"}}`, `{"paused":true,"reason":"r","concurrency":1}`,
		`[]`, `null`, `{"id":`, "\xff", `{"id":"a"}}`, `{"token":-1}`, `{"max":1e9}`, `{"waitMs":5,"max":1}`,
	} {
		f.Add(i%len(fuzzTargets), body, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, target int, body string, strict bool) {
		g := newRig(t)
		g.submit("a", "t")
		g.claim1()
		before := g.node.written()
		header := []string{"Content-Type", "application/json"}
		if strict {
			header = append(header, "Prefer", v1.PreferStrict)
		}
		path := fuzzTargets[(target%len(fuzzTargets)+len(fuzzTargets))%len(fuzzTargets)]
		method, rest, other := strings.Cut(path, " ")
		if !other {
			method, rest = "POST", path
		}
		a := g.do(method, rest, body, header...)
		switch {
		case a.status >= 500:
			t.Fatalf("answered %d %s", a.status, a.body)
		case a.status == http.StatusNoContent:
		case !jsontext.Value(a.body).IsValid(core.Lenient):
			t.Fatalf("answered %d with what is not JSON: %q", a.status, a.body)
		}
		if a.status == http.StatusBadRequest && g.node.written() != before {
			t.Fatalf("refused and written: %s", a.body)
		}
	})
}

// FuzzProtoBodies sends any body in protobuf to any route, in a frame. No request may cause an internal error, every
// answer is well-formed, and a refused request changes nothing.
func FuzzProtoBodies(f *testing.F) {
	for i, m := range []v1.Message{
		&v1.NewJob{ID: "b", Type: "t", Payload: []byte(`{"n":[1,2.50,"x"]}`), Priority: -1, Headers: map[string]string{"a": "b"}},
		&v1.Batch{Jobs: []v1.NewJob{{ID: "b"}, {Payload: []byte("null"), DelayMs: 5}}},
		&v1.Claim{WorkerID: new("w"), Types: []string{"t", ""}, Max: new(int32(2)), LeaseMs: 500, RequestID: "r"},
		&v1.HeartbeatBatch{WorkerID: new("w"), Jobs: []v1.Lease{{JobID: "a", Token: 1<<32 + 1, Progress: &v1.Progress{Percent: 101}}}},
		&v1.CompleteBatch{WorkerID: new("w"), Jobs: []v1.CompleteLease{{JobID: "a", Token: 1<<32 + 1, Result: []byte("1"), Log: "l"}}},
		&v1.Heartbeat{WorkerID: new("w"), Token: 1<<32 + 1},
		&v1.Complete{WorkerID: new("w"), Token: 1<<32 + 1, Claim: &v1.NextClaim{RequestID: "r", Max: new(int32(-1))}},
		&v1.Fail{WorkerID: new("w"), Token: 1<<32 + 1, Error: "e", Retryable: new(false), DelayMs: new(int64(-1))},
		&v1.Release{DelayMs: 1 << 62},
	} {
		b, _ := m.AppendProto(nil)
		f.Add(i, b)
	}
	f.Add(0, []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, target int, body []byte) {
		g := newRig(t)
		g.submit("a", "t")
		g.claim1()
		before := g.node.written()
		path := fuzzTargets[(target%len(fuzzTargets)+len(fuzzTargets))%len(fuzzTargets)]
		method, rest, other := strings.Cut(path, " ")
		if !other {
			method, rest = "POST", path
		}
		_, answer, takes := busyCall(httptest.NewRequest(method, rest, nil))
		req := frame.Request{Target: rest, Method: method, Body: body, Proto: true}
		(&framed{s: g.s}).Answer(t.Context(), &req, senderFunc(func(a *frame.Answer) {
			switch {
			case a.Status >= 500, !takes && a.Proto, !takes && len(body) > 0 && a.Status < 400:
				t.Fatalf("answered %d %s", a.Status, a.Body)
			case a.Status == http.StatusBadRequest && g.node.written() != before:
				t.Fatalf("refused and written: %s", a.Body)
			case a.Proto:
				if err := answer.ParseProto(a.Body, math.MaxInt); err != nil && new(v1.ClaimedJob).ParseProto(a.Body, math.MaxInt) != nil {
					t.Fatalf("answered %d %x: %v", a.Status, a.Body, err)
				}
			case a.Status != http.StatusNoContent && !jsontext.Value(a.Body).IsValid(core.Lenient):
				t.Fatalf("answered %d with what is not JSON: %q", a.Status, a.Body)
			}
		}))
	})
}

// FuzzQueries sends any query to any route that reads. No request may cause an internal error or
// hang, and every answer is well-formed.
func FuzzQueries(f *testing.F) {
	reads := func(g *rig) (paths []string) {
		for i := range g.s.routes {
			if g.s.routes[i].Method == http.MethodGet {
				paths = append(paths, variable.ReplaceAllString(g.s.routes[i].Path, "a"))
			}
		}
		slices.Sort(paths)
		return paths
	}
	for i := range reads(newRig(f)) {
		for _, query := range []string{
			"", "limit=1&cursor=AwEF&order=newest", "type=t&status=dead,running&tag=a&tag=b&group=&batch=b&search=%C3%A9X",
			"createdFrom=1&createdTo=2&finishedFrom=2026-01-02T03:04:05Z&finishedTo=x", "token=5&offset=7&waitMs=99999999", "at=4-7&minLsn=9-9",
			"at=2026-01-02T03:04:05Z", "kind=job.&lastEventId=1-1.0", "fromMs=-1&toMs=9223372036854775807&stepMs=0", "limit=0&cursor=%ff", "%",
		} {
			f.Add(i, query)
		}
	}
	f.Fuzz(func(t *testing.T, target int, query string) {
		g := newRig(t, func(cfg *core.Config) {
			cfg.Timeouts = core.DefaultTimeouts()
			cfg.Timeouts.Wait, cfg.Timeouts.Fresh, cfg.Timeouts.KeepAlive = time.Millisecond, time.Millisecond, time.Millisecond
		})
		g.submit("a", "t")
		g.claim1()
		paths := reads(g)
		r := httptest.NewRequest(http.MethodGet, paths[(target%len(paths)+len(paths))%len(paths)], nil)
		r.URL.RawQuery = query
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(20*time.Millisecond, cancel) // a stream of events ends with its reader
		w := httptest.NewRecorder()
		g.s.ServeHTTP(w, r.WithContext(ctx))
		switch {
		case w.Code == http.StatusInternalServerError:
			t.Fatalf("%s?%s: %d %s", r.URL.Path, query, w.Code, w.Body)
		case strings.Contains(w.Header().Get("Content-Type"), "json") && !jsontext.Value(w.Body.Bytes()).IsValid(core.Lenient):
			t.Fatalf("%s?%s: %d with what is not JSON: %q", r.URL.Path, query, w.Code, w.Body)
		}
	})
}

var variable = regexp.MustCompile(`\{\w+\}`)

// FuzzPayload stores any payload that is accepted, and gets the same bytes
// back.
func FuzzPayload(f *testing.F) {
	for _, p := range []string{`1`, ` {"a" : 1.00} `, `"\u0041\ud800"`, `null`, "[\n]", `{"a":1,"a":2}`, `"` + "\u2028" + `"`} {
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		g := newRig(t)
		body := append(append([]byte(`{"id":"x","payload":`), payload...), '}')
		a := g.do("POST", "/v1/jobs", string(body))
		if a.status != http.StatusOK {
			return
		}
		j := g.node.Job("x")
		if j == nil { // the payload closed the object and gave another id
			return
		}
		got := ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`))
		if !bytes.Equal(got.Payload, j.Payload()) {
			t.Fatalf("stored %q, got back %q", j.Payload(), got.Payload)
		}
		var opaque struct {
			Payload jsontext.Value `json:"payload"`
		}
		if err := json.Unmarshal(body, &opaque, core.Lenient); err != nil || !bytes.Equal(opaque.Payload, j.Payload()) {
			t.Fatalf("sent %q, stored %q (%v)", payload, j.Payload(), err)
		}
	})
}
