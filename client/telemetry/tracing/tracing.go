package tracing

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"osqueue/client"
	"osqueue/client/worker"
)

const scope = "osqueue/client/telemetry/tracing"

// Tracer makes the spans of jobs. Its methods are safe for concurrent use. A nil Tracer does
// nothing.
type Tracer struct {
	tracer trace.Tracer
	text   propagation.TextMapPropagator
	// sampled reports whether the spans of a trace with a root of RootOf are exported; nil: no roots.
	sampled func(trace.TraceID) bool
	claims  recent[client.Lease] // of jobs that are not reported
	runs    recent[client.Lease]
	before  recent[string] // the last run of a job, by its id
}

// New returns a Tracer that makes its spans with provider; nil for nil. The claims of a job without
// headers begin a trace each, see NewWithRoots.
func New(provider trace.TracerProvider) *Tracer { return NewWithRoots(provider, nil) }

// NewWithRoots returns a Tracer as New does, whose spans of a job without headers are in the trace that
// nodes make of the job, below RootOf. The provider's sampler finds a parent there, so sampled must
// decide about these traces, as the sampler of the nodes does for a span without parent.
func NewWithRoots(provider trace.TracerProvider, sampled func(trace.TraceID) bool) *Tracer {
	if provider == nil {
		return nil
	}
	return &Tracer{tracer: provider.Tracer(scope), text: propagation.TraceContext{}, sampled: sampled}
}

// Enqueuer is the part of *client.Client that adds jobs.
type Enqueuer interface {
	Enqueue(ctx context.Context, job client.NewJob) (client.Enqueued, error)
	EnqueueBatch(ctx context.Context, jobs []client.NewJob) (client.BatchEnqueued, error)
}

// Enqueue adds a job as c does, in a span that the job carries in its headers.
func (t *Tracer) Enqueue(ctx context.Context, c Enqueuer, job client.NewJob) (client.Enqueued, error) {
	if t == nil {
		return c.Enqueue(ctx, job)
	}
	ctx, span := t.tracer.Start(ctx, "enqueue "+job.Type, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(typeOf(job.Type)))
	job.Headers = t.inject(ctx, job.Headers)
	out, err := c.Enqueue(ctx, job)
	span.SetAttributes(idOf(out.JobID))
	end(span, err)
	return out, err
}

// EnqueueBatch adds jobs as c does, in one span that all of them carry.
func (t *Tracer) EnqueueBatch(ctx context.Context, c Enqueuer, jobs []client.NewJob) (client.BatchEnqueued, error) {
	if t == nil {
		return c.EnqueueBatch(ctx, jobs)
	}
	ctx, span := t.tracer.Start(ctx, "enqueue batch", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(jobs))))
	traced := make([]client.NewJob, len(jobs))
	for i, job := range jobs {
		job.Headers = t.inject(ctx, job.Headers)
		traced[i] = job
	}
	out, err := c.EnqueueBatch(ctx, traced)
	end(span, err)
	return out, err
}

// inject returns the headers with the context of the span in ctx. It does not change headers.
func (t *Tracer) inject(ctx context.Context, headers map[string]string) map[string]string {
	out := maps.Clone(headers)
	if out == nil {
		out = make(map[string]string, 1)
	}
	t.text.Inject(ctx, propagation.MapCarrier(out))
	return out
}

// Middleware runs each handler in a span, which is in the context of the handler and in the
// headers of its job.
func (t *Tracer) Middleware(next worker.HandlerFunc) worker.HandlerFunc {
	if t == nil {
		return next
	}
	return func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		opts := []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(typeOf(job.Type), idOf(job.ID), attribute.Int("osqueue.attempt", job.Attempt)),
		}
		if before, ok := t.before.get(job.ID); ok && job.Attempt > 1 {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: before}))
		}
		if claim, ok := t.claims.get(job.Lease()); ok {
			ctx = trace.ContextWithRemoteSpanContext(ctx, claim)
		} else { // the queue of the worker is not traced
			ctx = t.above(ctx, job.ID, job.Headers)
		}
		ctx, span := t.tracer.Start(ctx, "run "+job.Type, opts...)
		t.runs.put(job.Lease(), span.SpanContext())
		t.before.put(job.ID, span.SpanContext())
		job.Headers = t.inject(ctx, job.Headers)
		var err error
		defer func() { end(span, err) }() // also if the handler panics
		result, err := next(ctx, job)
		return result, err
	}
}

func typeOf(jobType string) attribute.KeyValue {
	return attribute.String("messaging.destination.name", jobType)
}

func idOf(id string) attribute.KeyValue { return attribute.String("messaging.message.id", id) }

// end ends a span with the outcome of its call.
func end(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// RootOf returns the context of the root of the spans of a job without the header traceparent. Nodes and
// workers derive it from the id of the job, so that their spans are of one trace.
func RootOf(jobID string) trace.SpanContext {
	sum := xxhash.Sum64String(jobID)
	c := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
	binary.BigEndian.PutUint64(c.TraceID[:8], sum)
	binary.BigEndian.PutUint64(c.TraceID[8:], max(mixed(sum+1), 1))
	binary.BigEndian.PutUint64(c.SpanID[:], max(mixed(sum+2), 1))
	return trace.NewSpanContext(c)
}

// mixed returns a number each of whose bits depends on all bits of n: the finalizer of MurmurHash3.
func mixed(n uint64) uint64 {
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	n = (n ^ n>>33) * 0xc4ceb9fe1a85ec53
	return n ^ n>>33
}

// above returns ctx with the span above those of a job: the one that its headers name, else its root if
// the tracer knows roots.
func (t *Tracer) above(ctx context.Context, jobID string, headers map[string]string) context.Context {
	carrier := propagation.MapCarrier(headers)
	if t.sampled == nil || trace.SpanContextFromContext(t.text.Extract(context.Background(), carrier)).IsValid() {
		return t.text.Extract(ctx, carrier)
	}
	root := RootOf(jobID)
	if !t.sampled(root.TraceID()) {
		root = root.WithTraceFlags(0)
	}
	return trace.ContextWithRemoteSpanContext(ctx, root)
}

// LogHandler returns h with the attributes trace_id and span_id for records whose context is in
// a span.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

// recentMax is the number of contexts after which the older half of them is dropped.
const recentMax = 10_000

// recent has the contexts of spans by key. It keeps at least the last recentMax and at most
// twice as many. The zero value is ready for use.
type recent[K comparable] struct {
	mu       sync.Mutex // guards the fields below
	now, old map[K]trace.SpanContext
}

func (r *recent[K]) put(key K, span trace.SpanContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || len(r.now) >= recentMax {
		r.now, r.old = make(map[K]trace.SpanContext), r.now
	}
	r.now[key] = span
}

func (r *recent[K]) get(key K) (trace.SpanContext, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	span, ok := r.now[key]
	if !ok {
		span, ok = r.old[key]
	}
	return span, ok
}

func (r *recent[K]) drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.now, key)
	delete(r.old, key)
}
