package client

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// Job returns the current state of a job. If Config.Cipher cannot decrypt a part of it, the
// error is a *SealError, and the job has that part encrypted.
func (c *Client) Job(ctx context.Context, id string) (v1.Job, error) {
	job, err := sendRead[v1.Job](ctx, c.caller, call{op: "get job", prefix: v1.PathJobs, name: id})
	if err != nil {
		return job, err
	}
	err = c.openRead(ctx, &job)
	return job, err
}

// ListOptions select jobs. The zero value selects all jobs that have not ended. Without Statuses,
// FinishedFrom or FinishedBefore select among the jobs that have.
type ListOptions struct {
	// Statuses are the statuses to list, for example v1.StatusUnclaimed or
	// v1.WordAvailable. v1.StatusAll selects every status.
	Statuses []string
	Type     string   // "": any; v1.QueueName("") are the jobs without type
	Tag      string   // "": any
	Tags     []string // in addition to Tag; a job must have all of them
	Group    string   // "": any
	Worker   string   // the worker of the last attempt; "": any
	BatchID  string   // "": any job, in a batch or not
	Cron     string   // the schedule that enqueued the job; "": any job
	// CreatedFrom is inclusive, CreatedBefore is exclusive. Zero means no bound.
	CreatedFrom   time.Time
	CreatedBefore time.Time
	// FinishedFrom and FinishedBefore select jobs that have ended, by when.
	FinishedFrom   time.Time
	FinishedBefore time.Time
	Search         string // a text in the id, type, tags, last error or payload; "": any job
	Newest         bool   // the newest job first; false: the oldest
	PageSize       int    // jobs per request; 0: the server's default
	Limit          int    // the most jobs to list; 0: all
}

func (o ListOptions) query() url.Values {
	q := url.Values{}
	if len(o.Statuses) > 0 {
		q.Set(v1.ParamStatus, strings.Join(wireStatuses(o.Statuses), ","))
	}
	for name, value := range map[string]string{
		v1.ParamType: o.Type, v1.ParamGroup: o.Group, v1.ParamWorker: o.Worker,
		v1.ParamBatch: o.BatchID, v1.ParamCron: o.Cron,
		v1.ParamCreatedFrom: unixText(o.CreatedFrom), v1.ParamCreatedBefore: unixText(o.CreatedBefore),
		v1.ParamFinishedFrom: unixText(o.FinishedFrom), v1.ParamFinishedBefore: unixText(o.FinishedBefore),
		v1.ParamSearch: o.Search,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, tag := range append([]string{o.Tag}, o.Tags...) {
		if tag != "" {
			q.Add(v1.ParamTag, tag)
		}
	}
	if o.Newest {
		q.Set(v1.ParamSort, v1.SortNewest)
	}
	size := o.PageSize
	if o.Limit > 0 && (size == 0 || o.Limit < size) {
		size = o.Limit
	}
	if size > 0 {
		q.Set(v1.ParamLimit, strconv.Itoa(min(size, maxPage)))
	}
	return q
}

// unixText returns t in milliseconds, or "" for the zero time.
func unixText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// unixMs returns t in milliseconds, or 0 for the zero time.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// maxPage is the most jobs on one page of a server.
const maxPage = 1000

// Jobs iterates over jobs in the order in which they were enqueued. It requests a
// page when the loop needs it. An error is the last item of the sequence. Values
// that Config.Cipher cannot decrypt stay encrypted: see IsSealed.
func (c *Client) Jobs(ctx context.Context, o ListOptions) iter.Seq2[v1.Job, error] {
	list := call{op: "list jobs", path: v1.PathJobs, query: o.query(), limit: o.Limit}
	return pages(ctx, c.caller, list, func(p v1.JobList) ([]v1.Job, string) {
		c.openJobs(ctx, p.Jobs)
		return p.Jobs, p.NextCursor
	})
}

// CountJobs returns the number of jobs that o selects; Limit and Newest have no effect. The
// servers look at a bounded number of jobs for one request, so that a count by more than
// statuses and type takes several and is not of one moment.
func (c *Client) CountJobs(ctx context.Context, o ListOptions) (n uint64, err error) {
	o.Newest = false
	list := call{op: "count jobs", path: v1.PathCount, query: o.query()}
	for part, err := range pages(ctx, c.caller, list, func(p v1.JobCount) ([]uint64, string) { return []uint64{p.Count}, p.NextCursor }) {
		if err != nil {
			return 0, err
		}
		n += part
	}
	return n, nil
}

// Finished reports whether a job with this status is completed, dead, cancelled or expired.
// It runs again only if someone retries it.
func Finished(status string) bool {
	return status == v1.StatusCompleted || status == v1.StatusDead || status == v1.StatusCancelled ||
		status == v1.StatusExpired
}

// read returns a call that changes nothing, for the moment of ctx.
func (c *caller) read(ctx context.Context, k call) call {
	query := url.Values{}
	maps.Copy(query, k.query)
	k.query = query
	at := momentOf(ctx)
	switch reads := c.cfg.Reads; {
	case !at.IsZero():
		k.anywhere = true
		k.query.Set(v1.ParamAt, at.String())
	case reads == ReadOwnWrites:
		k.anywhere = true
		if mark := c.lsn.String(); mark != "" {
			k.query.Set(v1.ParamMinLSN, mark)
			break
		}
		k.query.Set(v1.ParamConsistency, v1.ConsistencyLocal)
	case reads == ReadAny:
		k.anywhere = true
		k.query.Set(v1.ParamConsistency, v1.ConsistencyLocal)
	}
	return k
}

// JobGraph returns the jobs before and behind a job: those that it was enqueued to run after,
// and those that run after it, over any number of steps. limit is the largest number of jobs and
// batches in the graph, of which the nearest come first; 0 means the server's default.
func (c *Client) JobGraph(ctx context.Context, id string, limit int) (v1.Graph, error) {
	q := url.Values{}
	if limit != 0 {
		q.Set(v1.ParamLimit, strconv.Itoa(limit))
	}
	return sendRead[v1.Graph](ctx, c.caller, call{op: "get job graph", prefix: v1.PathJobs, name: id, action: v1.ActionGraph, query: q})
}
