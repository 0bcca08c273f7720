package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "osqueue/client/api/v1"
)

// Change is the result of changing, cancelling, retrying or deleting one job.
type Change struct {
	JobID string
	// Tag is "" if the change is done, also if it was done before. Otherwise it is
	// the reason of the refusal, for example v1.TagWrongStatus.
	Tag string
	// Duplicate is true if there was nothing left to do.
	Duplicate bool
	// Stopping is true if the job is running: its worker gets the request to stop,
	// and the job is cancelled when the attempt ends.
	Stopping bool
	// Status is the status of the job now, or before it was deleted. Only changes
	// of single jobs set it.
	Status string
	// Revision is the number of edits of the job. Only changes of single jobs set it.
	Revision uint64
	// LSN is the position of the change in the log, and Committed its level:
	// AckQuorum or AckObject. Both are "" if the change was refused.
	LSN       string
	Committed Ack
}

// Cancel cancels a job. If the job is running, Cancel asks its worker to stop, and
// the job is cancelled when the attempt ends.
func (c *Client) Cancel(ctx context.Context, id string) (Change, error) {
	return c.changeOne(ctx, call{op: "cancel", name: id, action: v1.ActionCancel})
}

// Retry makes a dead, cancelled or expired job available with all its attempts. A scheduled
// job becomes available at once.
func (c *Client) Retry(ctx context.Context, id string) (Change, error) {
	return c.changeOne(ctx, call{op: "retry", name: id, action: v1.ActionRetry})
}

// Delete removes a job that is not running.
func (c *Client) Delete(ctx context.Context, id string) (Change, error) {
	return c.changeOne(ctx, call{op: "delete", method: http.MethodDelete, name: id})
}

// Edit has the fields of a job that Client.Edit changes; nil ones stay.
type Edit struct {
	Payload     json.RawMessage
	Priority    *int32
	RunAt       *time.Time     // the zero time is at once
	Delay       *time.Duration // from now on, in place of RunAt
	Tags        []string       // all tags; empty, but not nil, is none
	Limits      []string       // all limits, likewise
	MaxAttempts *int32
	Retry       bool    // retries a job that is dead, cancelled or expired
	Revision    *uint64 // the number of edits that the job must have
}

// Edit changes fields of a job that waits, or of one that is retried. The next attempt sees them. If the job has another
// revision, HasTag(err, v1.TagRevised) is true.
func (c *Client) Edit(ctx context.Context, id string, e Edit) (Change, error) {
	const op = "edit"
	in := v1.EditJob{Priority: e.Priority, Tags: e.Tags, Limits: e.Limits, MaxAttempts: e.MaxAttempts, Retry: e.Retry}
	if e.RunAt != nil {
		in.RunAt = new(unixMs(*e.RunAt))
	}
	if e.Delay != nil {
		in.DelayMs = new(e.Delay.Milliseconds())
	}
	if e.Revision != nil {
		in.Revision = new(int64(*e.Revision))
	}
	payload, err := c.sealEdited(ctx, id, e.Payload)
	if err != nil {
		return Change{}, err
	}
	body, err := encodeWith(in, "payload", payload)
	if err != nil {
		return Change{}, local(op, err)
	}
	return c.changeOne(ctx, call{op: op, method: http.MethodPatch, name: id, body: body})
}

// sealEdited encrypts a new payload of a job, for the type that the job has.
func (c *Client) sealEdited(ctx context.Context, id string, payload json.RawMessage) (json.RawMessage, error) {
	if c.cfg.Cipher == nil || payload == nil {
		return payload, nil
	}
	old, err := c.Job(ctx, id)
	if err != nil && !errors.As(err, new(*SealError)) { // the type is never encrypted
		return nil, err
	}
	job, err := c.sealJob(ctx, NewJob{ID: id, Type: old.Type, Payload: payload})
	if err != nil {
		return nil, local("edit", err)
	}
	return job.Payload, nil
}

func (c *Client) changeOne(ctx context.Context, w call) (Change, error) {
	w.prefix, w.own = v1.PathJobs, new(Receipt)
	out, err := sendWrite[v1.Reported](ctx, c.caller, w)
	if err != nil {
		return Change{}, err
	}
	return Change{
		JobID: w.name, Duplicate: out.Duplicate, Stopping: out.Cancel, Status: out.Status, Revision: uint64(out.Revision),
		LSN: out.LSN, Committed: w.own.Committed(),
	}, nil
}

// CancelMany cancels several jobs, each independently of the others. The results
// are in the order of ids; a refusal is in Change.Tag and is not an error. If a
// request fails, the results are those of the earlier requests, for the first ids.
func (c *Client) CancelMany(ctx context.Context, ids []string) ([]Change, error) {
	return c.changeMany(ctx, "cancel many", v1.PathCancel, ids)
}

// RetryMany is like CancelMany, for Retry.
func (c *Client) RetryMany(ctx context.Context, ids []string) ([]Change, error) {
	return c.changeMany(ctx, "retry many", v1.PathRetry, ids)
}

// RetryFresh is like RetryMany, and drops what the attempts of the jobs have stored, and the signals that they were sent.
func (c *Client) RetryFresh(ctx context.Context, ids []string) ([]Change, error) {
	return c.changeMany(ctx, "retry many", v1.PathRetry, ids, func(in *v1.ChangeJobs) { in.Fresh = true })
}

// DeleteMany is like CancelMany, for Delete.
func (c *Client) DeleteMany(ctx context.Context, ids []string) ([]Change, error) {
	return c.changeMany(ctx, "delete many", v1.PathDelete, ids)
}

func (c *Client) changeMany(ctx context.Context, op, path string, ids []string, how ...func(*v1.ChangeJobs)) ([]Change, error) {
	if slices.Contains(ids, "") {
		return nil, local(op, errNoID)
	}
	var changes []Change
	key, n := ownKey(ctx), 0
	for part := range slices.Chunk(ids, MaxBatchJobs) {
		var receipt Receipt
		in := v1.ChangeJobs{IDs: part}
		for _, set := range how {
			set(&in)
		}
		out, err := c.change(ctx, op, path, in, partKey(key, n), &receipt)
		if err != nil {
			return changes, err
		}
		if len(out.Results) != len(part) {
			return changes, oddWrite(op, fmt.Errorf("the server returned %d results for %d jobs", len(out.Results), len(part)))
		}
		for _, r := range out.Results {
			one := Change{JobID: r.JobID, Tag: refusalOf(r), Duplicate: r.Status == v1.ItemDuplicate, Stopping: r.Cancel}
			if one.Tag == "" {
				one.LSN, one.Committed = out.LSN, receipt.Committed()
			}
			changes = append(changes, one)
		}
		n++
	}
	return changes, nil
}

// Filter selects jobs to change. A job must match every field that is set. To
// select every job, set All.
type Filter struct {
	All      bool
	Statuses []string // none: all statuses to which the change applies
	Type     string   // "": any
	Tag      string   // "": any
	Group    string   // "": any
	BatchID  string   // "": any job, in a batch or not
	Worker   string   // the worker that runs the job or ended it; "": any
	// CreatedFrom is inclusive, CreatedBefore is exclusive. Zero means no bound.
	CreatedFrom   time.Time
	CreatedBefore time.Time
	// Limit is the most jobs to change; 0 means all.
	Limit int
}

var errFilter = errors.New("the filter is empty and would match all jobs; set All to match all")

func (f Filter) wire() (*v1.Filter, error) {
	out := &v1.Filter{
		Statuses:      wireStatuses(f.Statuses),
		Type:          optional(f.Type),
		Tag:           f.Tag,
		Group:         optional(f.Group),
		BatchID:       f.BatchID,
		WorkerID:      optional(f.Worker),
		CreatedFrom:   unixMs(f.CreatedFrom),
		CreatedBefore: unixMs(f.CreatedBefore),
	}
	if !f.All && f.unbounded() {
		return nil, errFilter
	}
	out.All = f.All
	return out, nil
}

// wireStatuses returns the statuses of the wire format for the words of a filter.
func wireStatuses(words []string) []string {
	var out []string
	for _, word := range words {
		out = append(out, v1.StatusOf(word))
	}
	return out
}

// unbounded reports whether the filter sets no field.
func (f Filter) unbounded() bool {
	names := f.Type + f.Tag + f.Group + f.BatchID + f.Worker
	return names == "" && len(f.Statuses) == 0 && f.CreatedFrom.IsZero() && f.CreatedBefore.IsZero()
}

// CancelWhere cancels all jobs that f selects, with as many requests as needed, and
// returns the number of jobs. If a request fails, the number counts the jobs of the
// earlier requests, and Error.Committed is about the failed request only.
func (c *Client) CancelWhere(ctx context.Context, f Filter) (uint64, error) {
	return c.changeWhere(ctx, "cancel where", v1.PathCancel, f)
}

// RetryWhere is like CancelWhere, for Retry.
func (c *Client) RetryWhere(ctx context.Context, f Filter) (uint64, error) {
	return c.changeWhere(ctx, "retry where", v1.PathRetry, f)
}

// DeleteWhere is like CancelWhere, for Delete.
func (c *Client) DeleteWhere(ctx context.Context, f Filter) (uint64, error) {
	return c.changeWhere(ctx, "delete where", v1.PathDelete, f)
}

func (c *Client) changeWhere(ctx context.Context, op, path string, f Filter) (uint64, error) {
	filter, err := f.wire()
	if err != nil {
		return 0, local(op, err)
	}
	var total uint64
	in := v1.ChangeJobs{Filter: filter}
	key := ownKey(ctx)
	for n := 0; ; n++ {
		if f.Limit > 0 {
			in.Limit = min(f.Limit-int(total), MaxBatchJobs)
		}
		out, err := c.change(ctx, op, path, in, partKey(key, n), nil)
		if err != nil {
			return total, err
		}
		total += out.Count
		switch {
		case out.NextCursor == "", f.Limit > 0 && total >= uint64(f.Limit):
			return total, nil
		case out.NextCursor == in.Cursor:
			return total, oddWrite(op, errCursor)
		}
		in.Cursor = out.NextCursor
	}
}

func (c *Client) change(ctx context.Context, op, path string, in v1.ChangeJobs, key string, own *Receipt) (v1.Changed, error) {
	return send[v1.Changed](ctx, c.caller, call{op: op, path: path, in: in, write: true, key: key, own: own})
}
