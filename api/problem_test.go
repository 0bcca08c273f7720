package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/leader"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func TestErrorsOfTheNode(t *testing.T) {
	for _, tc := range []struct {
		err       error
		status    int
		tag       string
		committed string
		retry     string
	}{
		{cluster.ErrNotLeader, 503, v1.TagNotLeader, v1.CommittedNo, "1"},
		{cluster.ErrOverloaded, 503, v1.TagOverloaded, v1.CommittedNo, "1"},
		{cluster.ErrTooLarge, 413, v1.TagTooLarge, v1.CommittedNo, ""},
		{cluster.ErrFlushLag, 503, v1.TagFlushLag, v1.CommittedNo, "2"},
		{cluster.ErrClosed, 503, v1.TagClosing, v1.CommittedNo, "1"},
		{cluster.ErrUnknown, 503, v1.TagUnknownOutcome, v1.CommittedUnknown, "1"},
		{fmt.Errorf("%w: %w", cluster.ErrUnknown, cluster.ErrNotLeader), 503, v1.TagUnknownOutcome, v1.CommittedUnknown, "1"},
		{context.DeadlineExceeded, 504, v1.TagTimeout, v1.CommittedNo, "1"},
		{errors.New("disk /dev/sda1 said no"), 500, v1.TagInternal, v1.CommittedUnknown, ""},
	} {
		g := newRig(t)
		g.node.set(func(f *fakeNode) { f.proposeErr = fmt.Errorf("propose: %w", tc.err) })
		for _, path := range []string{"/v1/jobs", "/v1/jobs/a/complete", "/v1/workers"} {
			a := g.do("POST", path, `{"name":"w"}`)
			p := refused(t, a, tc.status, tc.tag)
			if p.Committed != tc.committed || a.header.Get("Retry-After") != tc.retry || (p.RetryAfterMs > 0) != (tc.retry != "") {
				t.Errorf("%v: %s, Retry-After %q", tc.err, a.body, a.header.Get("Retry-After"))
			}
			if strings.Contains(string(a.body), "sda1") || strings.Contains(string(a.body), "propose:") {
				t.Errorf("%v: the inside shows in %s", tc.err, a.body)
			}
		}
	}
}

// The lag of the bucket is not the caller's fault: the answer explains it.
func TestTooFarBehind(t *testing.T) {
	g := newRig(t)
	lag := &leader.FlushLagError{Lag: 301*time.Second + 42*time.Millisecond, Max: 5 * time.Minute, Cause: "connection refused"}
	g.node.set(func(f *fakeNode) { f.proposeErr = fmt.Errorf("propose: %w", lag) })
	p := refused(t, g.do("POST", "/v1/jobs?ack=object", `{}`), http.StatusServiceUnavailable, v1.TagFlushLag)
	if p.Detail != lag.Error() || p.LagMs != 301_042 || p.MaxFlushLagMs != 300_000 || p.Reason != "connection refused" ||
		p.Committed != v1.CommittedNo || p.RetryAfterMs != 2000 {
		t.Fatalf("got %+v", p)
	}
}

func TestEveryCodeHasAnAnswer(t *testing.T) {
	for code := fsm.OK; code.String() != "unknown"; code++ {
		err := code.Err()
		if err == nil || code == fsm.OldEpoch { // only brokers get that
			continue
		}
		f := core.FailureOf(err)
		client := f.Status >= 400 && f.Status < 500 || f.Status == http.StatusInsufficientStorage
		if f.Tag != code.String() || !client || f.Detail != err.Error() || f.Unknown || f.Title == "" {
			t.Errorf("%s is answered with %d %s %q", code, f.Status, f.Tag, f.Detail)
		}
	}
}

// panicking is a backend with a bug.
type panicking struct{ *fakeNode }

func (panicking) Job(string) *fsm.Job { panic("a secret bug") }

func (panicking) Now() int64 { panic("another bug") }

func TestPanicsCostOneRequest(t *testing.T) {
	var log strings.Builder
	g := newRig(t, func(c *core.Config) {
		c.Backend = panicking{c.Backend.(*fakeNode)}
		c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	})
	a := g.do("GET", "/v1/jobs/a", "")
	if p := refused(t, a, http.StatusInternalServerError, v1.TagInternal); p.Committed != "" || strings.Contains(string(a.body), "secret") {
		t.Fatalf("answered %s", a.body)
	}
	p := refused(t, g.do("POST", "/v1/jobs", `{"delayMs":1}`), http.StatusInternalServerError, v1.TagInternal)
	if p.Committed != v1.CommittedUnknown {
		t.Fatalf("committed %q", p.Committed)
	}
	if !strings.Contains(log.String(), "a secret bug") || !strings.Contains(log.String(), "problem_test.go") {
		t.Fatalf("the log has %s", log.String())
	}
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{}`))
}

func TestTheClientThatHasGone(t *testing.T) {
	g := newRig(t)
	stall := make(chan struct{})
	defer close(stall)
	g.node.set(func(f *fakeNode) { f.stall = stall })
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if a := g.send(request("POST", "/v1/jobs", `{}`).WithContext(ctx)); a.status != 499 {
		t.Fatalf("answered %d", a.status)
	}
}

// counting is a tracer that counts.
type counting struct{ enqueues, claims, reports int }

// Committed implements Tracer.
func (t *counting) Committed(_ time.Time, m *fsmpb.Mutation, _ fsm.Result, _ fsm.LSN) {
	switch m.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		t.enqueues++
	case *fsmpb.Mutation_Claim:
		t.claims++
	case *fsmpb.Mutation_Complete, *fsmpb.Mutation_Group:
		t.reports++
	}
}

// The tracer gets each write that was committed, and a report with the next claim as two.
func TestTheTracerGetsWrites(t *testing.T) {
	tracer := new(counting)
	g := newRig(t, func(c *core.Config) { c.Tracer = tracer })
	g.do(http.MethodPost, v1.PathJobs, `{"id":"1","type":"t"}`)
	g.do(http.MethodPost, v1.PathJobsBatch, `{"jobs":[{"id":"2","type":"t"},{"id":"3","type":"t"}]}`)
	g.do(http.MethodPost, v1.PathJobs, `{"type":"t","priority":"high"}`)
	one := ok[v1.ClaimedJob](t, g.do(http.MethodPost, v1.PathClaim, `{"workerId":"w","types":["t"]}`))
	g.do(http.MethodPost, v1.PathComplete, `{"workerId":"w","jobs":[{"jobId":"`+one.JobID+`"}],"claim":{"types":["t"],"max":1,"requestId":"r"}}`)
	if want := (counting{enqueues: 2, claims: 2, reports: 1}); *tracer != want {
		t.Errorf("%+v, want %+v", *tracer, want)
	}
}

// A server without tracer makes no more allocations than one whose tracer does nothing: the
// call of the tracer makes none.
func TestTracingOffIsFree(t *testing.T) {
	allocations := func(tracer core.Tracer, path, body string) float64 {
		g := newRig(t, func(c *core.Config) { c.Backend, c.Tracer = newInstant(), tracer })
		reader := bytes.NewReader(nil)
		r := httptest.NewRequest(http.MethodPost, path, nil)
		r.Header.Set("Content-Type", "application/json")
		r.Body, r.ContentLength = io.NopCloser(reader), int64(len(body))
		w := &sink{header: make(http.Header)}
		return testing.AllocsPerRun(500, func() {
			reader.Reset([]byte(body))
			clear(w.header)
			g.s.ServeHTTP(w, r)
			if w.status != http.StatusOK {
				t.Fatalf("%s answered %d", path, w.status)
			}
		})
	}
	for path, body := range map[string]string{
		v1.PathJobs:  `{"id":"01932c07-a2a1-7be3-9c3d-6f0a57c1e101","type":"mail","payload":` + benchPayload + `}`,
		v1.PathClaim: `{"workerId":"w-1","types":["mail"],"max":1,"requestId":"5f0c1b52"}`,
		v1.PathJobs + "/01932c07-a2a1-7be3-9c3d-6f0a57c1e101/complete": `{"workerId":"w-1","token":4294967297,"result":{"sent":true}}`,
	} {
		off, on := allocations(nil, path, body), allocations(new(counting), path, body)
		if off != on {
			t.Errorf("%s: %v allocations without a tracer, %v with one that does nothing", path, off, on)
		}
	}
}

// The lines of the debug log have the trace of the request, or else of its job.
func TestLogLinesHaveTheTrace(t *testing.T) {
	const ofJob, ofRequest = "0af7651916cd43dd8448eb211c80319c", "11111111111111111111111111111111"
	var log bytes.Buffer
	g := newRig(t, func(c *core.Config) {
		c.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &log})
	})
	post := func(path, body, traceparent string) string {
		log.Reset()
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if traceparent != "" {
			r.Header.Set("Traceparent", traceparent)
		}
		g.s.ServeHTTP(httptest.NewRecorder(), r)
		return log.String()
	}
	job := `{"id":"1","type":"t","headers":{"traceparent":"00-` + ofJob + `-b7ad6b7169203331-01"}}`
	for name, c := range map[string]struct{ line, want string }{
		"of the job":      {post(v1.PathJobs, job, ""), "trace_id=" + ofJob},
		"of a claim":      {post(v1.PathClaim, `{"workerId":"w","types":["t"],"max":1}`, ""), "trace_id=" + ofJob},
		"of the request":  {post(v1.PathJobs, strings.Replace(job, `"1"`, `"2"`, 1), "00-"+ofRequest+"-b7ad6b7169203331-01"), "trace_id=" + ofRequest},
		"of no job":       {post(v1.PathJobs, `{}`, ""), ""},
		"not a trace":     {post(v1.PathJobs, `{}`, "00-x-y"), ""},
		"not hexadecimal": {post(v1.PathJobs, `{}`, "00-"+strings.Repeat("x", 32)+"-b7ad6b7169203331-01"), ""},
	} {
		if !strings.Contains(c.line, c.want) || c.want == "" && strings.Contains(c.line, "trace_id") || !strings.Contains(c.line, "answered") {
			t.Errorf("%s: %q", name, c.line)
		}
	}
}
