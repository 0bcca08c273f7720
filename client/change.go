package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "osqueue/api/v1"
)

// Change is what became of one job that was to be cancelled, retried or
// deleted.
type Change struct {
	JobID string
	// Tag is "" if it was done, or had been done before; else why not, for
	// example v1.TagWrongStatus.
	Tag string
	// Duplicate: there was nothing to do any more.
	Duplicate bool
	// Stopping: the job runs, and its worker is told to stop. It is cancelled
	// when the attempt has ended.
	Stopping bool
	// Status is where the job stands now, or stood when it was deleted. It is
	// known of single changes only.
	Status string
	// LSN is the place of the change in the history, Committed how safe it is:
	// AckQuorum or AckObject. Both are "" if it was refused.
	LSN       string
	Committed Ack
}

// Cancel takes a job back. One that runs is cancelled when its worker has heard
// of it and has ended the attempt.
func (c *Client) Cancel(ctx context.Context, id string) (Change, error) {
	return c.changeOne(ctx, named{op: "cancel", name: id, action: v1.ActionCancel})
}

// Retry gives a dead or cancelled job all its attempts again, and lets a
// scheduled one run at once.
func (c *Client) Retry(ctx context.Context, id string) (Change, error) {
	return c.changeOne(ctx, named{op: "retry", name: id, action: v1.ActionRetry})
}

// Delete removes a job that does not run.
func (c *Client) Delete(ctx context.Context, id string) (Change, error) {
	return c.changeOne(ctx, named{op: "delete", method: http.MethodDelete, name: id})
}

func (c *Client) changeOne(ctx context.Context, w named) (Change, error) {
	w.prefix = v1.PathJobs
	if w.name == "" {
		return Change{}, local(w.op, errNoID)
	}
	w.own = new(Receipt)
	out, err := writeName[v1.Reported](ctx, c, w)
	if err != nil {
		return Change{}, err
	}
	return Change{
		JobID: w.name, Duplicate: out.Duplicate, Stopping: out.Cancel, Status: out.Status,
		LSN: out.LSN, Committed: w.own.Committed(),
	}, nil
}

// CancelMany cancels jobs; each is decided for itself. The answers are in the
// order of ids, and a refusal is not an error. After an error the answers are
// those of the first jobs, up to the request that failed.
func (c *Client) CancelMany(ctx context.Context, ids []string) ([]Change, error) {
	return c.changeMany(ctx, "cancel many", v1.PathCancel, ids)
}

// RetryMany is like CancelMany for Retry.
func (c *Client) RetryMany(ctx context.Context, ids []string) ([]Change, error) {
	return c.changeMany(ctx, "retry many", v1.PathRetry, ids)
}

// DeleteMany is like CancelMany for Delete.
func (c *Client) DeleteMany(ctx context.Context, ids []string) ([]Change, error) {
	return c.changeMany(ctx, "delete many", v1.PathDelete, ids)
}

func (c *Client) changeMany(ctx context.Context, op, path string, ids []string) ([]Change, error) {
	if slices.Contains(ids, "") {
		return nil, local(op, errNoID)
	}
	var changes []Change
	key, n := ownKey(ctx), 0
	for part := range slices.Chunk(ids, MaxBatchJobs) {
		var receipt Receipt
		out, err := c.change(ctx, op, path, v1.ChangeJobs{IDs: part}, partKey(key, n), &receipt)
		if err != nil {
			return changes, err
		}
		if len(out.Results) != len(part) {
			return changes, oddWrite(op, fmt.Errorf("%d results for %d jobs", len(out.Results), len(part)))
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

// Filter chooses jobs to change: those that have all that it names. To choose
// every job, say All.
type Filter struct {
	All      bool
	Statuses []string // none: all that the change applies to
	Type     string   // "": any
	Tag      string   // "": any
	Group    string   // "": any
	BatchID  string   // "": any, or none
	Worker   string   // who holds the job, or ended it; "": anyone
	// CreatedFrom is inclusive, CreatedBefore is not. Zero: no bound.
	CreatedFrom   time.Time
	CreatedBefore time.Time
	// Limit is the most jobs to change; 0: all.
	Limit int
}

var errFilter = errors.New("the filter names nothing, and so all jobs; set All if that is meant")

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

// wireStatuses are the statuses that the words of a filter mean.
func wireStatuses(words []string) []string {
	var out []string
	for _, word := range words {
		out = append(out, v1.StatusOf(word))
	}
	return out
}

// unbounded reports whether the filter names nothing.
func (f Filter) unbounded() bool {
	names := f.Type + f.Tag + f.Group + f.BatchID + f.Worker
	return names == "" && len(f.Statuses) == 0 && f.CreatedFrom.IsZero() && f.CreatedBefore.IsZero()
}

// CancelWhere cancels all jobs that f chooses, by as many requests as it takes,
// and returns how many these were, also when it fails on the way: what the error
// says of the outcome is about the request that failed.
func (c *Client) CancelWhere(ctx context.Context, f Filter) (uint64, error) {
	return c.changeWhere(ctx, "cancel where", v1.PathCancel, f)
}

// RetryWhere is like CancelWhere for Retry.
func (c *Client) RetryWhere(ctx context.Context, f Filter) (uint64, error) {
	return c.changeWhere(ctx, "retry where", v1.PathRetry, f)
}

// DeleteWhere is like CancelWhere for Delete.
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
	body, err := encode(in)
	if err != nil {
		return v1.Changed{}, local(op, err)
	}
	return send[v1.Changed](ctx, c, call{
		op: op, method: http.MethodPost, path: path, body: body, write: true, key: key, own: own,
	})
}
