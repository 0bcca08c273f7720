package otlp_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
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
	"osqueue/client/telemetry/tracing/otlp"
	"osqueue/client/worker"
)

// receiver is a collector in this process.
type receiver struct {
	mu    sync.Mutex
	spans []*tracepb.Span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var in tracepb.TracesData
	if err = errors.Join(err, proto.Unmarshal(body, &in)); err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range in.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// cluster is a queue with one job, which fails once. It keeps the job's headers, as the server
// does.
type cluster struct {
	worker.Queue
	mu       sync.Mutex
	job      *client.NewJob
	attempts int
	free     bool
	ended    chan struct{}
}

func (c *cluster) Enqueue(_ context.Context, job client.NewJob) (client.Enqueued, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.job, c.free = &job, true
	return client.Enqueued{JobID: "j1"}, nil
}

func (c *cluster) EnqueueBatch(context.Context, []client.NewJob) (client.BatchEnqueued, error) {
	return client.BatchEnqueued{}, nil
}

func (c *cluster) Claim(ctx context.Context, o client.ClaimOptions) ([]client.ClaimedJob, error) {
	c.mu.Lock()
	if c.free {
		c.free = false
		c.attempts++
		job := client.ClaimedJob{
			ID: "j1", Type: c.job.Type, Attempt: c.attempts, Token: uint64(c.attempts), Worker: o.Worker, Headers: c.job.Headers,
			Length: time.Minute,
		}
		c.mu.Unlock()
		return []client.ClaimedJob{job}, nil
	}
	c.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
	return nil, ctx.Err()
}

func (c *cluster) Heartbeat(_ context.Context, _ string, leases []client.Lease) ([]client.Beat, error) {
	return make([]client.Beat, len(leases)), nil
}

func (c *cluster) FailBatch(_ context.Context, _ string, jobs []client.FailedJob) ([]client.Beat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = true
	return make([]client.Beat, len(jobs)), nil
}

func (c *cluster) CompleteBatch(_ context.Context, _ string, jobs []client.Completion) ([]client.Beat, error) {
	close(c.ended)
	return make([]client.Beat, len(jobs)), nil
}

func (c *cluster) RegisterWorker(context.Context, client.WorkerInfo) error { return nil }
func (c *cluster) RemoveWorker(context.Context, string) error              { return nil }

// One job over two attempts is one tree in the collector.
func TestOneJobIsOneTree(t *testing.T) {
	var got receiver
	srv := httptest.NewServer(&got)
	defer srv.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	tracer, stop, err := otlp.FromEnv(t.Context())
	if err != nil || tracer == nil {
		t.Fatal(tracer, err)
	}
	c := &cluster{ended: make(chan struct{})}
	if _, err := tracer.Enqueue(t.Context(), c, client.NewJob{Type: "mail", Headers: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	log := slog.New(tracing.LogHandler(slog.NewTextHandler(&text, nil)))
	w, err := worker.New(tracer.Queue(c), worker.Config{Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.Use(tracer.Middleware)
	w.Handle("mail", func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		log.InfoContext(ctx, "sent")
		if job.Attempt == 1 {
			return nil, errors.New("no")
		}
		return nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	select {
	case <-c.ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the job does not end")
	}
	cancel()
	<-done
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkTree(t, got.spans)
	trace := "trace_id=" + hex.EncodeToString(got.spans[0].TraceId)
	if n := strings.Count(text.String(), trace); n != 2 {
		t.Errorf("%d log lines have %s:\n%s", n, trace, text.String())
	}
}

// A job without headers is in the trace that nodes derive from its id, at each attempt, if their sampler
// takes that trace.
func TestAJobWithoutHeadersHasTheTraceOfTheNodes(t *testing.T) {
	if got := tracing.RootOf("j1"); got.TraceID().String() != "bd69c68cee32edb3c874e4b87cbaa836" || got.SpanID().String() != "217f82af650262d2" {
		t.Errorf("nodes of other releases have another root: %s %s", got.TraceID(), got.SpanID())
	}
	root := tracing.RootOf("j1")
	for _, row := range []struct {
		sampler, share string
		headers        map[string]string
		trace, parent  string
		spans          int
	}{
		{"parentbased_always_on", "", nil, root.TraceID().String(), root.SpanID().String(), 2},
		{"parentbased_traceidratio", "0", nil, "", "", 0},
		{"parentbased_traceidratio", "0", map[string]string{"traceparent": traceparent}, traceparent[3:35], traceparent[36:52], 2},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", row.sampler)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", row.share)
		out := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(out), sdktrace.WithSampler(otlp.Sampler()))
		q := tracing.NewWithRoots(provider, otlp.Sampled()).Queue(&cluster{job: &client.NewJob{Type: "mail", Headers: row.headers}, free: true})
		for range 2 {
			if _, err := q.Claim(t.Context(), client.ClaimOptions{Worker: "w"}); err != nil {
				t.Fatal(err)
			}
			if _, err := q.FailBatch(t.Context(), "w", []client.FailedJob{}); err != nil { // it is free again
				t.Fatal(err)
			}
		}
		spans := out.GetSpans()
		if len(spans) != row.spans {
			t.Errorf("%+v: %d spans", row, len(spans))
		}
		for _, s := range spans {
			if s.SpanContext.TraceID().String() != row.trace || s.Parent.SpanID().String() != row.parent || !s.Parent.IsRemote() {
				t.Errorf("%+v: %+v below %+v", row, s.SpanContext, s.Parent)
			}
		}
	}
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// checkTree checks that all spans are of one trace, with one root, and who is whose child.
func checkTree(t *testing.T, spans []*tracepb.Span) {
	t.Helper()
	names := map[string]string{"": "nothing"}
	for _, s := range spans {
		names[string(s.SpanId)] = s.Name
		if !bytes.Equal(s.TraceId, spans[0].TraceId) {
			t.Errorf("%s is of another trace", s.Name)
		}
	}
	var edges []string
	links := 0
	for _, s := range spans {
		edges = append(edges, names[string(s.ParentSpanId)]+" > "+s.Name)
		links += len(s.Links)
	}
	slices.Sort(edges)
	want := []string{
		"claim mail > run mail", "claim mail > run mail", "enqueue mail > claim mail", "enqueue mail > claim mail",
		"nothing > enqueue mail", "run mail > report", "run mail > report",
	}
	if !slices.Equal(edges, want) || links != 1 {
		t.Errorf("%d links, edges\n got %q\nwant %q", links, edges, want)
	}
}

// Without the environment there is no tracer, and that one costs nothing.
func TestOffIsFree(t *testing.T) {
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	tracer, stop, err := otlp.FromEnv(t.Context())
	if err != nil || tracer != nil || stop(t.Context()) != nil {
		t.Fatal(tracer, err)
	}
	if send, err := otlp.Sender(); send != nil || err != nil {
		t.Fatal("there is a sender", err)
	}
	c := new(idle)
	var q worker.Queue = c
	job, jobs, ctx := client.NewJob{Type: "t"}, []client.NewJob{{}}, t.Context()
	if n := testing.AllocsPerRun(100, func() {
		_, _ = tracer.Enqueue(ctx, c, job)
		_, _ = tracer.EnqueueBatch(ctx, c, jobs)
		if tracer.Queue(q) != q {
			t.Error("the queue is wrapped")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type idle struct{ cluster }

func (*idle) Enqueue(context.Context, client.NewJob) (client.Enqueued, error) {
	return client.Enqueued{}, nil
}
