package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"

	v1 "osqueue/client/api/v1"
)

// NewBatch describes a workflow batch to create: jobs that the cluster counts until
// all of them have ended.
type NewBatch struct {
	ID string // "": the client makes one
	// Jobs are the first jobs of the batch, at most MaxBatchJobs. You can add more
	// with NewJob.BatchID until all jobs have ended. A batch without jobs stays
	// open and waits for them.
	Jobs []NewJob
	// Callback is a job that the cluster enqueues once, when all jobs have ended.
	// Nil means no callback.
	Callback *NewJob
	// CallbackOn is v1.CallbackEnded (the default, also "") or
	// v1.CallbackCompleted, which enqueues the callback only if all jobs completed.
	CallbackOn string
}

// encode returns the JSON of the batch.
func (b NewBatch) encode() ([]byte, error) {
	var callback json.RawMessage
	if b.Callback != nil {
		text, err := EncodeJob(*b.Callback)
		if err != nil {
			return nil, err
		}
		callback = text
	}
	jobs, err := encodeJobs(b.Jobs)
	if err != nil {
		return nil, err
	}
	var body []byte
	head := struct {
		ID         string `json:"id"`
		CallbackOn string `json:"callbackOn,omitzero"`
	}{b.ID, b.CallbackOn}
	body, err = encodeWith(head, "jobs", jobs)
	if err != nil {
		return nil, err
	}
	if callback != nil {
		body = append(body[:len(body)-1], `,"callback":`...)
		body = append(body, callback...)
		body = append(body, '}')
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
	return send[v1.BatchCreated](ctx, c.caller, c.write(ctx, op, http.MethodPost, v1.PathBatches, body))
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
	return readName[v1.BatchInfo](ctx, c.caller, named{op: "get batch", prefix: v1.PathBatches, name: id})
}

// Batches iterates over the batches that the cluster keeps, ordered by id. An error
// is the last item of the sequence.
func (c *Client) Batches(ctx context.Context) iter.Seq2[v1.BatchInfo, error] {
	list := listing{op: "list batches", path: v1.PathBatches}
	return pages(ctx, c.caller, list, func(p v1.BatchList) ([]v1.BatchInfo, string) { return p.Batches, p.NextCursor })
}
