package tracing

import (
	"context"
	"encoding/json"
	"maps"

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
