package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"osqueue/client"
	"osqueue/client/telemetry/tracing"
	"osqueue/client/worker"
	"osqueue/tests/cluster"
)

// span is a span that a collector got, from a node or from the client.
type span struct {
	name, service      string
	trace, id, parent  string
	links              []string // ids of spans
	linksToOtherTraces int
}

// collector is a collector of OTLP in this process.
type collector struct {
	t     *testing.T
	mu    sync.Mutex // guards the field below
	spans []span
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in tracepb.TracesData
	if err = errors.Join(err, proto.Unmarshal(body, &in)); err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s: %v", r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range in.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.GetAttributes() {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, spanOf(service, s))
			}
		}
	}
}

func spanOf(service string, s *tracepb.Span) span {
	out := span{
		name: s.Name, service: service,
		trace: hex.EncodeToString(s.TraceId), id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId),
	}
	for _, l := range s.Links {
		if hex.EncodeToString(l.TraceId) != out.trace {
			out.linksToOtherTraces++
		}
		out.links = append(out.links, hex.EncodeToString(l.SpanId))
	}
	return out
}

// all returns the spans so far.
func (c *collector) all() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// One job over the enqueue, an attempt that fails, the death of the leader, and an attempt that
// completes is one tree, of spans of the client and of two leaders.
func TestOneJobIsOneTreeOverAFailover(t *testing.T) {
	t.Parallel()
	got := &collector{t: t}
	srv := httptest.NewServer(got)
	defer srv.Close()
	c := cluster.Start(t, cluster.Options{Env: []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + srv.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_SERVICE_NAME=queue",
	}})
	own := tracetest.NewInMemoryExporter()
	tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(own)))
	ctx := c.Context(time.Minute)
	added, err := tracer.Enqueue(ctx, c.Client, client.NewJob{Type: "mail"})
	check(t, err)
	w, err := worker.New(tracer.Queue(c.Client), worker.Config{Concurrency: 1, PollWait: 500 * time.Millisecond})
	check(t, err)
	w.Use(tracer.Middleware)
	w.Handle("mail", func(_ context.Context, job worker.Job) (json.RawMessage, error) {
		if job.Attempt > 1 {
			return nil, nil
		}
		exported := func() error { // or the spans of the leader die with it
			if !slices.ContainsFunc(got.all(), func(s span) bool { return s.name == "claim mail" }) {
				return errors.New("there is no span of the first claim")
			}
			return nil
		}
		if err := cluster.Poll(20*time.Second, exported); err != nil {
			t.Error(err)
		}
		leader := c.WaitLeader()
		leader.Kill()
		c.WaitOtherLeader(leader)
		return nil, errors.New("no")
	})
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(run) }()
	c.Eventually(40*time.Second, "the end of the job", func() error {
		j, err := c.Client.Job(ctx, added.JobID)
		if err == nil && j.Status != "completed" {
			err = errors.New(j.Status)
		}
		return err
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, s := range own.GetSpans() {
		of := span{name: s.Name, service: "client", trace: s.SpanContext.TraceID().String(), id: s.SpanContext.SpanID().String()}
		if s.Parent.IsValid() {
			of.parent = s.Parent.SpanID().String()
		}
		for _, l := range s.Links {
			of.links = append(of.links, l.SpanContext.SpanID().String())
		}
		got.mu.Lock()
		got.spans = append(got.spans, of)
		got.mu.Unlock()
	}
	trace := own.GetSpans()[0].SpanContext.TraceID().String()
	want := []string{
		" > client enqueue mail",
		"client claim mail > client run mail", "client claim mail > client run mail",
		"client enqueue mail > client claim mail", "client enqueue mail > client claim mail",
		"client enqueue mail > queue claim mail", "client enqueue mail > queue claim mail", "client enqueue mail > queue enqueue mail",
		"client run mail > client report", "client run mail > client report",
		"client run mail ~ client run mail",
		"queue claim mail > queue complete mail", "queue claim mail > queue fail mail",
		"queue claim mail ~ queue claim mail",
	}
	c.Eventually(20*time.Second, "the spans of the nodes", func() error {
		if edges := edgesOf(got.all(), trace); !slices.Equal(edges, want) {
			return errors.New("the tree is\n" + strings.Join(edges, "\n"))
		}
		return nil
	})
	c.Eventually(20*time.Second, "the span of a flush", func() error { // a flush follows its writes
		if !slices.ContainsFunc(got.all(), func(s span) bool {
			return s.name == "flush" && s.parent == "" && s.linksToOtherTraces > 0
		}) {
			return errors.New("no flush is linked to a write")
		}
		return nil
	})
}

// edgesOf returns the spans of a trace as "parent > span", and their links as "span ~ span".
func edgesOf(spans []span, trace string) []string {
	names := map[string]string{"": ""}
	for _, s := range spans {
		names[s.id] = s.service + " " + s.name
	}
	var out []string
	for _, s := range spans {
		if s.trace != trace {
			continue
		}
		parent, known := names[s.parent]
		if !known {
			parent = "unknown"
		}
		out = append(out, parent+" > "+names[s.id])
		for _, l := range s.links {
			out = append(out, names[s.id]+" ~ "+names[l])
		}
	}
	slices.Sort(out)
	return out
}

// A command of osqueue worker gets the context of its run, whose span is in the trace of the
// producer, and the line of the worker about the job has the id of that trace.
func TestACommandIsInTheTrace(t *testing.T) {
	t.Parallel()
	const trace, producer = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	got := &collector{t: t}
	srv := httptest.NewServer(got)
	defer srv.Close()
	c := cluster.Start(t, cluster.Options{Nodes: 1, Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + srv.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}})
	w := c.StartWorker("w1", "--exec", "show=printenv TRACEPARENT")
	ctx := c.Context(time.Minute)
	added, err := c.Client.Enqueue(ctx, client.NewJob{Type: "show", Headers: map[string]string{"traceparent": "00-" + trace + "-" + producer + "-01"}})
	check(t, err)
	job, err := c.Client.WaitJob(ctx, added.JobID, 40*time.Second)
	check(t, err)
	var parent string
	if err := json.Unmarshal(job.Result, &parent); err != nil {
		t.Fatalf("%s: %v", job.Result, err)
	}
	c.Eventually(20*time.Second, "the spans", func() error {
		for _, want := range []string{"osqueue claim show", "osqueue-worker run show"} {
			if !slices.ContainsFunc(got.all(), func(s span) bool { return s.service+" "+s.name == want && s.trace == trace }) {
				return errors.New("there is no span " + want)
			}
		}
		return nil
	})
	run := got.all()[slices.IndexFunc(got.all(), func(s span) bool { return s.name == "run show" })]
	if parent != "00-"+trace+"-"+run.id+"-01" {
		t.Errorf("TRACEPARENT is %q, the run has the span %s", parent, run.id)
	}
	c.Eventually(10*time.Second, "the line of the job", func() error {
		if log := w.Log(); !strings.Contains(log, "trace_id="+trace) {
			return errors.New(log)
		}
		return nil
	})
}
