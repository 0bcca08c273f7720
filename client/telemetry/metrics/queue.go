package metrics

import (
	"context"

	"osqueue/client"
	"osqueue/client/worker"
)

// Queue returns q for the worker, with its claims and heartbeats counted.
func (w *Worker) Queue(q worker.Queue) worker.Queue {
	return queue{Queue: q, w: w}
}

// queue counts the calls to a Queue.
type queue struct {
	worker.Queue
	w *Worker
}

// Claim implements worker.Queue.
func (q queue) Claim(ctx context.Context, opts client.ClaimOptions) ([]client.ClaimedJob, error) {
	q.w.claiming.Inc()
	defer q.w.claiming.Dec()
	jobs, err := q.Queue.Claim(ctx, opts)
	q.claimed(len(jobs), err)
	return jobs, err
}

func (q queue) claimed(jobs int, err error) {
	result := "jobs"
	switch {
	case err != nil:
		result = "error"
	case jobs == 0:
		result = "none"
	}
	q.w.claims.WithLabelValues(result).Inc()
}

// Heartbeat implements worker.Queue.
func (q queue) Heartbeat(ctx context.Context, name string, leases []client.Lease) ([]client.Beat, error) {
	beats, err := q.Queue.Heartbeat(ctx, name, leases)
	result := "ok"
	if err != nil {
		result = "error"
	}
	q.w.heartbeats.WithLabelValues(result).Inc()
	return beats, err
}

// CompleteAndClaim implements worker.Queue.
func (q queue) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	beats, claimed, err := q.Queue.CompleteAndClaim(ctx, jobs, next)
	q.claimed(len(claimed), err)
	return beats, claimed, err
}
