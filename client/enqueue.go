package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "osqueue/api/v1"
)

// The most that one batch may hold. The server refuses more.
const (
	MaxBatchJobs  = 1000
	MaxBatchBytes = 1 << 20 // of the request's body
)

// Enqueue adds a job.
func (c *Client) Enqueue(ctx context.Context, job NewJob) (Enqueued, error) {
	const op = "enqueue"
	body, err := encodeJob(job)
	if err != nil {
		return Enqueued{}, local(op, err)
	}
	out, err := send[v1.Enqueued](ctx, c, call{op: op, method: http.MethodPost, path: v1.PathJobs, body: body, write: true})
	return Enqueued{JobID: out.JobID, LSN: out.LSN, Duplicate: out.Duplicate}, err
}

// BatchEnqueued is the answer to a batch.
type BatchEnqueued struct {
	JobIDs     []string // in the order of the jobs
	LSN        string
	Duplicates []string // those of JobIDs that were there already
}

// EnqueueBatch adds all of the jobs, or none: also none if they are more than
// a batch may hold.
func (c *Client) EnqueueBatch(ctx context.Context, jobs []NewJob) (BatchEnqueued, error) {
	const op = "enqueue batch"
	if len(jobs) == 0 {
		return BatchEnqueued{}, nil
	}
	body, err := encodeBatch(jobs)
	if err != nil {
		return BatchEnqueued{}, local(op, err)
	}
	out, err := send[v1.BatchEnqueued](ctx, c, call{op: op, method: http.MethodPost, path: v1.PathJobsBatch, body: body, write: true})
	return BatchEnqueued{JobIDs: out.JobIDs, LSN: out.LSN, Duplicates: out.Duplicates}, err
}

func encodeBatch(jobs []NewJob) ([]byte, error) {
	if len(jobs) > MaxBatchJobs {
		return nil, fmt.Errorf("%d jobs are more than the %d that fit into a batch; send several", len(jobs), MaxBatchJobs)
	}
	var buf bytes.Buffer
	buf.WriteString(`{"jobs":[`)
	for i, job := range jobs {
		body, err := encodeJob(job)
		if err != nil {
			return nil, fmt.Errorf("job %d of the batch, counted from 0: %w", i, err)
		}
		if i > 0 {
			buf.WriteByte(',')
		}
		buf.Write(body)
	}
	buf.WriteString(`]}`)
	if buf.Len() > MaxBatchBytes {
		return nil, fmt.Errorf("the batch has %d bytes, more than the %d of a request; send several", buf.Len(), MaxBatchBytes)
	}
	return buf.Bytes(), nil
}

// EncodedSize is about how many bytes the job takes in a batch, for callers
// that cut batches.
func EncodedSize(job NewJob) int {
	return len(job.ID) + len(job.Type) + len(job.Payload) + 200
}

var errTwoTimes = errors.New("RunAt and Delay exclude each other; give one")

// encodeJob makes the JSON of a job, and its id if it has none: made here, it
// is the same in every repetition.
func encodeJob(job NewJob) ([]byte, error) {
	if !job.RunAt.IsZero() && job.Delay > 0 {
		return nil, errTwoTimes
	}
	if job.ID == "" {
		job.ID = NewID()
	}
	out := v1.NewJob{
		ID:          job.ID,
		Type:        job.Type,
		Priority:    job.Priority,
		DelayMs:     inMilliseconds(job.Delay),
		MaxAttempts: job.MaxAttempts,
		LeaseMs:     inMilliseconds(job.Lease),
	}
	if !job.RunAt.IsZero() {
		out.RunAt = job.RunAt.UnixMilli()
	}
	return encodeWith(out, "payload", job.Payload)
}

// inMilliseconds rounds up, so that a short time does not become none.
func inMilliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
