package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// instant is a node that commits in no time, so that only the server's own work
// is measured.
type instant struct {
	*fakeNode
	job *fsm.Job
	lsn fsm.LSN
}

func (n *instant) Ready(string, []string) bool { return true }

func (n *instant) Leader() (string, bool) { return "10.0.0.1:8080", true }

func (n *instant) Linearize(context.Context) error { return nil }

func (n *instant) ProposeWithin(_ context.Context, ms []*fsmpb.Mutation, _ time.Duration) ([]fsm.Result, fsm.LSN, error) {
	switch ms[0].Op.(type) {
	case *fsmpb.Mutation_Claim, *fsmpb.Mutation_Complete, *fsmpb.Mutation_Heartbeat:
		return []fsm.Result{{Jobs: []*fsm.Job{n.job}}}, n.lsn, nil
	}
	return []fsm.Result{{}}, n.lsn, nil
}

func newInstant() *instant {
	f := newFake()
	_, _, _ = f.apply(core.EnqueueOf([]*fsmpb.NewJob{{Id: "01932c07-a2a1-7be3-9c3d-6f0a57c1e101", Type: "mail", Payload: []byte(benchPayload)}}))
	res, lsn, _ := f.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w-1"}}})
	return &instant{fakeNode: f, job: res[0].Jobs[0], lsn: lsn}
}

// sink is a ResponseWriter that forgets.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

const benchPayload = `{"to":"ada@example.org","subject":"hello","retries":3,"tags":["a","b"]}`

// benchmarkRequest measures one request, without the network: over HTTP, and in frames with both encodings.
func benchmarkRequest(b *testing.B, method, path, body string, status int) {
	b.Helper()
	b.Run("http", func(b *testing.B) { benchmarkHTTP(b, method, path, body, status) })
	b.Run("frame/json", func(b *testing.B) {
		benchmarkFrame(b, &frame.Request{Target: path, Body: []byte(body), Prefer: v1.PreferStrict})
	})
	m, _, _ := busyCall(httptest.NewRequest(method, path, nil))
	if err := json.Unmarshal([]byte(body), m); err != nil {
		b.Fatal(err)
	}
	proto, _ := m.AppendProto(nil)
	b.Run("frame/proto", func(b *testing.B) {
		benchmarkFrame(b, &frame.Request{Target: path, Body: proto, Prefer: v1.PreferStrict, Proto: true})
	})
}

// benchmarkFrame measures what a server does for one frame, apart from its connection.
func benchmarkFrame(b *testing.B, req *frame.Request) {
	b.Helper()
	h := &framed{s: newRig(b, func(c *core.Config) { c.Backend = newInstant() }).s}
	raw, ctx := req.Append(nil), b.Context()
	var out []byte
	to := senderFunc(func(a *frame.Answer) {
		if out = a.Append(out[:0]); a.Status != http.StatusOK {
			b.Fatalf("answered %d %s", a.Status, a.Body)
		}
	})
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	var read frame.Request
	for b.Loop() {
		if err := read.Parse(raw); err != nil {
			b.Fatal(err)
		}
		h.Answer(ctx, &read, to)
	}
}

func benchmarkHTTP(b *testing.B, method, path, body string, status int) {
	b.Helper()
	g := newRig(b, func(c *core.Config) { c.Backend = newInstant() })
	reader := bytes.NewReader(nil)
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Prefer", v1.PreferStrict)
	r.Body, r.ContentLength = io.NopCloser(reader), int64(len(body))
	w := &sink{header: make(http.Header)}
	raw := []byte(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(raw)
		clear(w.header)
		g.s.ServeHTTP(w, r)
		if w.status != status {
			b.Fatalf("answered %d", w.status)
		}
	}
}

func BenchmarkEnqueue(b *testing.B) {
	benchmarkRequest(b, "POST", v1.PathJobs, `{"id":"01932c07-a2a1-7be3-9c3d-6f0a57c1e101","type":"mail","payload":`+benchPayload+`}`, http.StatusOK)
}

func BenchmarkClaim(b *testing.B) {
	benchmarkRequest(b, "POST", v1.PathClaim, `{"workerId":"w-1","types":["mail"],"max":1,"requestId":"5f0c1b52"}`, http.StatusOK)
}

func BenchmarkComplete(b *testing.B) {
	benchmarkRequest(b, "POST", v1.PathJobs+"/01932c07-a2a1-7be3-9c3d-6f0a57c1e101/complete",
		`{"workerId":"w-1","token":4294967297,"result":{"sent":true}}`, http.StatusOK)
}
