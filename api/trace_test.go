package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

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
