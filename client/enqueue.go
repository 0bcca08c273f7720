package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	v1 "osqueue/client/api/v1"
)

// Limits of one batch. The server refuses larger ones.
const (
	MaxBatchJobs  = 1000
	MaxBatchBytes = 1 << 20 // of the body of the request
)

// Enqueue adds a job to the queue.
func (c *Client) Enqueue(ctx context.Context, job NewJob) (Enqueued, error) {
	const op = "enqueue"
	given := job.ID
	if job.ID == "" {
		job.ID = newMaker(ctx).id()
	}
	sealed, err := c.sealJob(ctx, job)
	if err != nil {
		return Enqueued{}, local(op, err)
	}
	in, err := wireJob(sealed)
	if err != nil {
		return Enqueued{}, local(op, err)
	}
	var r Receipt
	out, err := send[v1.Enqueued](ctx, c.caller, call{
		op: op, name: given, path: v1.PathJobs, in: in, write: true, key: keyOf(ctx), own: &r,
	})
	return enqueued(out, job.ID, &r), err
}

// enqueued returns the result for the job that was sent with the given id.
func enqueued(out v1.Enqueued, id string, r *Receipt) Enqueued {
	e := Enqueued{JobID: out.JobID, LSN: out.LSN, Duplicate: out.Duplicate, Replaced: out.Replaced, Committed: r.Committed()}
	if out.Duplicate && out.JobID != id {
		e.Holder = out.JobID
	}
	return e
}

// BatchEnqueued is the result of EnqueueBatch.
type BatchEnqueued struct {
	// JobIDs are in the order of the jobs. If another job has reserved the unique
	// key of a job, the id of that other job is in its place.
	JobIDs     []string
	LSN        string   // the position of the write in the log
	Duplicates []string // the ids in JobIDs that existed before
	Committed  Ack      // the level of the write: AckQuorum or AckObject
}

// EnqueueBatch adds all of the jobs in one atomic step. It returns an error, and
// adds none, if they exceed MaxBatchJobs or MaxBatchBytes.
func (c *Client) EnqueueBatch(ctx context.Context, jobs []NewJob) (BatchEnqueued, error) {
	const op = "enqueue batch"
	if len(jobs) == 0 {
		return BatchEnqueued{}, nil
	}
	sealed, err := c.sealJobs(ctx, withIDs(jobs, newMaker(ctx)))
	if err != nil {
		return BatchEnqueued{}, local(op, err)
	}
	in, err := wireBatch(sealed)
	if err != nil {
		return BatchEnqueued{}, local(op, err)
	}
	var r Receipt
	out, err := send[v1.BatchEnqueued](ctx, c.caller, call{
		op: op, path: v1.PathJobsBatch, in: in, write: true, key: keyOf(ctx), own: &r,
	})
	if err == nil && len(out.JobIDs) != len(jobs) {
		err = oddWrite(op, fmt.Errorf("the server returned %d ids for %d jobs", len(out.JobIDs), len(jobs)))
	}
	return BatchEnqueued{JobIDs: out.JobIDs, LSN: out.LSN, Duplicates: out.Duplicates, Committed: r.Committed()}, err
}

// WithIDs returns a copy of the jobs in which every job has an id. EnqueueBatch
// would choose the same ids with the same idempotency key in ctx. Use it if you
// need the ids before the call.
func WithIDs(ctx context.Context, jobs []NewJob) []NewJob { return withIDs(jobs, newMaker(ctx)) }

// withIDs returns a copy of the jobs in which every job has an id. The ids stay the
// same when the call is repeated.
func withIDs(jobs []NewJob, ids *maker) []NewJob {
	out := slices.Clone(jobs)
	for i := range out {
		if out[i].ID == "" {
			out[i].ID = ids.id()
		}
	}
	return out
}

// wireBatch returns the body of a batch.
func wireBatch(jobs []NewJob) (*v1.Batch, error) {
	if err := checkCount(jobs); err != nil {
		return nil, err
	}
	out, size := &v1.Batch{Jobs: make([]v1.NewJob, len(jobs))}, 0
	for i := range jobs {
		size += EncodedSize(jobs[i])
		one, err := wireJob(jobs[i])
		if err != nil {
			return nil, fmt.Errorf("jobs[%d]: %w", i, err)
		}
		out.Jobs[i] = *one
	}
	if size <= MaxBatchBytes/8 { // also if each of its bytes is escaped
		return out, nil
	}
	body, err := out.AppendJSON(nil)
	if err == nil {
		_, err = checkSize(body)
	}
	return out, err
}

func checkSize(body []byte) ([]byte, error) {
	if len(body) > MaxBatchBytes {
		return nil, fmt.Errorf("the batch has %d bytes, more than the %d of a request; send several", len(body), MaxBatchBytes)
	}
	return body, nil
}

func checkCount(jobs []NewJob) error {
	if len(jobs) > MaxBatchJobs {
		return fmt.Errorf("%d jobs are more than the %d that fit into a batch; send several", len(jobs), MaxBatchJobs)
	}
	return nil
}

// encodeJobs returns the JSON array of the jobs.
func encodeJobs(jobs []NewJob) ([]byte, error) {
	if err := checkCount(jobs); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	buf.WriteByte('[')
	for i, job := range jobs {
		body, err := EncodeJob(job)
		if err != nil {
			return nil, fmt.Errorf("jobs[%d]: %w", i, err)
		}
		if i > 0 {
			buf.WriteByte(',')
		}
		buf.Write(body)
	}
	buf.WriteByte(']')
	return buf.Bytes(), nil
}

// EncodedSize returns the approximate number of bytes that the job takes in a
// batch, for callers that split batches.
func EncodedSize(job NewJob) int {
	size := len(job.ID) + len(job.Type) + len(job.Payload) + len(job.Group) + len(job.Unique.Key) + len(job.BatchID) + len(job.Sequence) + len(job.Step) + 400
	for _, texts := range [][]string{job.Tags, job.After, job.AfterNames, job.AfterBatches, job.Limits} {
		for _, t := range texts {
			size += len(t) + len(`"",`)
		}
	}
	for name, value := range job.Headers {
		size += len(name) + len(value) + len(`"":"",`)
	}
	return size
}

var errTwoTimes = errors.New("RunAt and Delay exclude each other; give one")

// EncodeJob returns the JSON of a job, as a file of the inbox and the API have it. The payload stays
// byte for byte.
func EncodeJob(job NewJob) ([]byte, error) {
	out, err := wireJob(job)
	if err != nil {
		return nil, err
	}
	return out.AppendJSON(nil)
}

// wireJob returns a job as it is sent.
func wireJob(job NewJob) (*v1.NewJob, error) {
	if !job.RunAt.IsZero() && job.Delay > 0 {
		return nil, errTwoTimes
	}
	out := &v1.NewJob{
		ID:           job.ID,
		Type:         job.Type,
		Payload:      job.Payload,
		Priority:     job.Priority,
		DelayMs:      inMilliseconds(job.Delay),
		MaxAttempts:  job.MaxAttempts,
		LeaseMs:      inMilliseconds(job.Lease),
		Backoff:      job.Backoff.wire(),
		TimeoutMs:    inMilliseconds(job.Timeout),
		RetainMs:     inMilliseconds(job.Retain),
		OnError:      onErrorInWire(job.OnError),
		Group:        job.Group,
		Tags:         job.Tags,
		Headers:      job.Headers,
		Limits:       job.Limits,
		Sequence:     job.Sequence,
		UniqueKey:    job.Unique.Key,
		UniqueScope:  job.Unique.Scope,
		UniqueMs:     inMilliseconds(job.Unique.Period),
		UniqueFields: job.UniqueFields,
		OnConflict:   job.OnConflict,
		DebounceMs:   inMilliseconds(job.Debounce), DebounceMaxMs: inMilliseconds(job.DebounceMax),
		After:        job.After,
		AfterFailure: job.AfterFailure,
		AfterNames:   job.AfterNames,
		AfterBatches: job.AfterBatches,
		Step:         job.Step,
		StartBefore:  unixMs(job.StartBefore),
		BatchID:      job.BatchID,
		Artefacts:    job.Artefacts,
	}
	if !job.RunAt.IsZero() {
		out.RunAt = job.RunAt.UnixMilli()
	}
	return out, checkRaw("payload", job.Payload)
}

// inMilliseconds converts d to milliseconds and rounds up, so that a short duration
// does not become 0.
func inMilliseconds(d time.Duration) int64 {
	return int64((min(d, math.MaxInt64-time.Millisecond) + time.Millisecond - 1) / time.Millisecond)
}

// milliseconds converts ms to a Duration. A value that would overflow becomes the
// longest Duration.
func milliseconds(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}
