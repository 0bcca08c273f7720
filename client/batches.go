package client

import (
	"context"
	"encoding/json"
	"iter"

	v1 "osqueue/client/api/v1"
)

// NewBatch describes a workflow batch to create: jobs that the cluster counts until
// all of them have ended.
type NewBatch struct {
	ID string `json:"id"` // "": the client makes one
	// Jobs are the first jobs of the batch, at most MaxBatchJobs. You can add more
	// with NewJob.BatchID until all jobs have ended. A batch without jobs stays
	// open and waits for them.
	Jobs []NewJob `json:"-"` // encode appends them, and the callback
	// Callback is a job that the cluster enqueues once, when all jobs have ended.
	// Nil means no callback.
	Callback *NewJob `json:"-"`
	// CallbackOn is v1.CallbackEnded (the default, also ""),
	// v1.CallbackCompleted, which enqueues the callback only if all jobs completed, or v1.CallbackFailed: as soon as one is dead.
	CallbackOn string `json:"callbackOn,omitzero"`
	// Parent is a job that the caller runs, whose children the jobs are: nothing is added unless it has the lease.
	Parent *Lease `json:"-"`
}

// encode returns the JSON of the batch.
func (b NewBatch) encode() ([]byte, error) {
	jobs, err := encodeJobs(b.Jobs)
	if err != nil {
		return nil, err
	}
	body, err := encodeWith(&b, "jobs", jobs)
	if err != nil {
		return nil, err
	}
	if p := b.Parent; p != nil {
		lease := v1.Lease{JobID: p.JobID, Token: p.Token}
		parent, err := lease.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		body = appendMember(body, "parent", parent)
		if p.Worker != "" {
			if parent, err = json.Marshal(p.Worker); err != nil {
				return nil, err
			}
			body = appendMember(body, "workerId", parent)
		}
	}
	if b.Callback != nil {
		callback, err := EncodeJob(*b.Callback)
		if err != nil {
			return nil, err
		}
		body = appendMember(body, "callback", callback)
	}
	return checkSize(body)
}

// CreateBatch creates a batch with its jobs and its callback in one atomic step.
// Repeated with the same ids it changes nothing.
func (c *Client) CreateBatch(ctx context.Context, b NewBatch) (v1.BatchCreated, error) {
	const op = "create batch"
	ids := newMaker(ctx)
	if b.ID == "" {
		b.ID = ids.id()
	}
	b.Jobs = withIDs(b.Jobs, ids)
	if b.Callback != nil {
		callback := withIDs([]NewJob{*b.Callback}, ids)[0]
		b.Callback = &callback
	}
	if err := c.sealBatch(ctx, &b); err != nil {
		return v1.BatchCreated{}, local(op, err)
	}
	body, err := b.encode()
	if err != nil {
		return v1.BatchCreated{}, local(op, err)
	}
	return send[v1.BatchCreated](ctx, c.caller, call{op: op, path: v1.PathBatches, body: body, write: true, key: ownKey(ctx)})
}

// sealBatch encrypts the payloads of a batch whose jobs have ids.
func (c *caller) sealBatch(ctx context.Context, b *NewBatch) (err error) {
	if b.Callback != nil {
		callback, err := c.sealJob(ctx, *b.Callback)
		if err != nil {
			return err
		}
		b.Callback = &callback
	}
	b.Jobs, err = c.sealJobs(ctx, b.Jobs)
	return err
}

// Batch returns the current state of a batch.
func (c *Client) Batch(ctx context.Context, id string) (v1.BatchInfo, error) {
	return sendRead[v1.BatchInfo](ctx, c.caller, call{op: "get batch", prefix: v1.PathBatches, name: id})
}

// Batches iterates over the batches that the cluster keeps, ordered by id. An error
// is the last item of the sequence.
func (c *Client) Batches(ctx context.Context) iter.Seq2[v1.BatchInfo, error] {
	list := call{op: "list batches", path: v1.PathBatches}
	return pages(ctx, c.caller, list, func(p v1.BatchList) ([]v1.BatchInfo, string) { return p.Batches, p.NextCursor })
}
