package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"osqueue/client"
	"osqueue/client/telemetry/tracing"
	"osqueue/client/worker"
)

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

func (c *cluster) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	beats, err := c.CompleteBatch(ctx, next.Worker, jobs)
	return beats, nil, err
}

func (c *cluster) RegisterWorker(context.Context, client.WorkerInfo) error { return nil }
func (c *cluster) RemoveInstance(context.Context, string, string) error    { return nil }

// One job over two attempts is one tree in the collector.
func TestOneJobIsOneTree(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(out)))
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
	spans := out.GetSpans()
	checkTree(t, spans)
	id := "trace_id=" + spans[0].SpanContext.TraceID().String()
	if n := strings.Count(text.String(), id); n != 2 {
		t.Errorf("%d log lines have %s:\n%s", n, id, text.String())
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
		sampled       bool
		headers       map[string]string
		trace, parent string
		spans         int
	}{
		{true, nil, root.TraceID().String(), root.SpanID().String(), 2},
		{false, nil, "", "", 0},
		{false, map[string]string{"traceparent": traceparent}, traceparent[3:35], traceparent[36:52], 2},
	} {
		out := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(out))
		tracer := tracing.NewWithRoots(provider, func(trace.TraceID) bool { return row.sampled })
		q := tracer.Queue(&cluster{job: &client.NewJob{Type: "mail", Headers: row.headers}, free: true})
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
func checkTree(t *testing.T, spans tracetest.SpanStubs) {
	t.Helper()
	names := map[trace.SpanID]string{{}: "nothing"}
	for _, s := range spans {
		names[s.SpanContext.SpanID()] = s.Name
		if s.SpanContext.TraceID() != spans[0].SpanContext.TraceID() {
			t.Errorf("%s is of another trace", s.Name)
		}
	}
	var edges []string
	links := 0
	for _, s := range spans {
		edges = append(edges, names[s.Parent.SpanID()]+" > "+s.Name)
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

// A nil tracer costs nothing.
func TestOffIsFree(t *testing.T) {
	tracer := tracing.New(nil)
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
