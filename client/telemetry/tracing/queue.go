package tracing

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"osqueue/client"
	"osqueue/client/worker"
)

// Queue returns q for the worker, with spans for the claims and the reports of jobs.
func (t *Tracer) Queue(q worker.Queue) worker.Queue {
	if t == nil {
		return q
	}
	return queue{Queue: q, t: t}
}

// queue makes spans of the calls to a Queue.
type queue struct {
	worker.Queue
	t *Tracer
}

// Claim implements worker.Queue. Each job that it gets has a span of the call in its trace; a
// claim without jobs has none.
func (q queue) Claim(ctx context.Context, opts client.ClaimOptions) ([]client.ClaimedJob, error) {
	began := time.Now()
	jobs, err := q.Queue.Claim(ctx, opts)
	q.claimed(ctx, began, jobs)
	return jobs, err
}

func (q queue) claimed(ctx context.Context, began time.Time, jobs []client.ClaimedJob) {
	for _, job := range jobs {
		_, span := q.t.tracer.Start(q.t.above(ctx, job.ID, job.Headers), "claim "+job.Type, trace.WithTimestamp(began),
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(typeOf(job.Type), idOf(job.ID)))
		q.t.claims.put(job.Lease(), span.SpanContext())
		span.End()
	}
}

// report makes the spans of a report on jobs, and returns the function that ends them.
func (q queue) report(ctx context.Context, leases []client.Lease) func([]client.Beat, error) {
	spans := make([]trace.Span, len(leases))
	for i, lease := range leases {
		key := client.Lease{JobID: lease.JobID, Worker: lease.Worker, Token: lease.Token}
		run, ran := q.t.runs.get(key)
		if !ran { // released before it ran
			run, _ = q.t.claims.get(key)
		}
		_, spans[i] = q.t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, run), "report", trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(idOf(lease.JobID)))
	}
	return func(beats []client.Beat, err error) {
		for i, span := range spans {
			of := err
			if err == nil && i < len(beats) && beats[i].Tag != "" {
				of = fmt.Errorf("refused: %s", beats[i].Tag)
			}
			end(span, of)
			if err == nil { // a report without an answer is repeated
				key := client.Lease{JobID: leases[i].JobID, Worker: leases[i].Worker, Token: leases[i].Token}
				q.t.runs.drop(key)
				q.t.claims.drop(key)
			}
		}
	}
}

// CompleteBatch implements worker.Queue.
func (q queue) CompleteBatch(ctx context.Context, name string, jobs []client.Completion) ([]client.Beat, error) {
	done := q.report(ctx, leasesOf(jobs, func(c client.Completion) client.Lease { return c.Lease }))
	beats, err := q.Queue.CompleteBatch(ctx, name, jobs)
	done(beats, err)
	return beats, err
}

// FailBatch implements worker.Queue.
func (q queue) FailBatch(ctx context.Context, name string, jobs []client.FailedJob) ([]client.Beat, error) {
	done := q.report(ctx, leasesOf(jobs, func(f client.FailedJob) client.Lease { return f.Lease }))
	beats, err := q.Queue.FailBatch(ctx, name, jobs)
	done(beats, err)
	return beats, err
}

// ReleaseBatch implements worker.Queue.
func (q queue) ReleaseBatch(ctx context.Context, name string, leases []client.Lease) ([]client.Beat, error) {
	done := q.report(ctx, leases)
	beats, err := q.Queue.ReleaseBatch(ctx, name, leases)
	done(beats, err)
	return beats, err
}

func leasesOf[T any](jobs []T, lease func(T) client.Lease) []client.Lease {
	out := make([]client.Lease, len(jobs))
	for i, job := range jobs {
		out[i] = lease(job)
	}
	return out
}

// CompleteAndClaim implements worker.Queue.
func (q queue) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	began := time.Now()
	done := q.report(ctx, leasesOf(jobs, func(c client.Completion) client.Lease { return c.Lease }))
	beats, claimed, err := q.Queue.CompleteAndClaim(ctx, jobs, next)
	done(beats, err)
	q.claimed(ctx, began, claimed)
	return beats, claimed, err
}
