package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	v1 "osqueue/api/v1"
)

// Job returns a job as it is now.
func (c *Client) Job(ctx context.Context, id string) (v1.Job, error) {
	const op = "get job"
	path, err := jobPath(id, "")
	if err != nil {
		return v1.Job{}, local(op, err)
	}
	return send[v1.Job](ctx, c, c.read(op, path, nil))
}

// ListOptions choose jobs. The zero value lists all that have not ended.
type ListOptions struct {
	// Statuses to list; v1.StatusAll is every one.
	Statuses []string
	Type     string // "": any
	PageSize int    // how many one request asks for; 0: the server's default
	Limit    int    // how many to list; 0: all
}

func (o ListOptions) query() url.Values {
	q := url.Values{}
	if len(o.Statuses) > 0 {
		q.Set(v1.ParamStatus, strings.Join(o.Statuses, ","))
	}
	if o.Type != "" {
		q.Set(v1.ParamType, o.Type)
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

// maxPage is the most jobs that a server puts on one page.
const maxPage = 1000

// Jobs lists jobs, first in first out, page by page as the caller goes on. An
// error ends the sequence.
func (c *Client) Jobs(ctx context.Context, o ListOptions) iter.Seq2[v1.Job, error] {
	return func(yield func(v1.Job, error) bool) {
		query, left := o.query(), o.Limit
		for {
			page, err := send[v1.JobList](ctx, c, c.read("list jobs", v1.PathJobs, query))
			if err != nil {
				yield(v1.Job{}, err)
				return
			}
			for _, j := range page.Jobs {
				if !yield(j, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			query.Set(v1.ParamCursor, page.NextCursor)
		}
	}
}

// JobPage returns one page of jobs and the figures of the whole queue. "" is
// the first page's cursor.
func (c *Client) JobPage(ctx context.Context, o ListOptions, cursor string) (v1.JobList, error) {
	query := o.query()
	if cursor != "" {
		query.Set(v1.ParamCursor, cursor)
	}
	return send[v1.JobList](ctx, c, c.read("list jobs", v1.PathJobs, query))
}

// Finished reports whether a job of that status will not run again by itself.
func Finished(status string) bool {
	return status == v1.StatusCompleted || status == v1.StatusDead || status == v1.StatusCancelled
}

// ErrNotFinished is wrapped by the error of WaitJob when its time is over.
var ErrNotFinished = errors.New("the job has not finished in time")

// WaitJob waits until the job has finished, for up to atMost, and returns it as
// last seen. It asks every 20 ms at first and every second in the end.
func (c *Client) WaitJob(ctx context.Context, id string, atMost time.Duration) (v1.Job, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, atMost, ErrNotFinished)
	defer cancel()
	asks := &backoff.ExponentialBackOff{
		InitialInterval: 20 * time.Millisecond, RandomizationFactor: 0.2, Multiplier: 1.5, MaxInterval: time.Second,
	}
	var job v1.Job
	for {
		now, err := c.Job(ctx, id)
		switch {
		case err == nil:
			job = now
		case ctx.Err() == nil:
			return job, err
		}
		if Finished(job.Status) {
			return job, nil
		}
		if !sleep(ctx, asks.NextBackOff()) {
			return job, fmt.Errorf("wait for job %s, last seen %s: %w", id, seenAs(job), context.Cause(ctx))
		}
	}
}

func seenAs(j v1.Job) string {
	if j.Status == "" {
		return "never"
	}
	return j.Status
}

// read is a call that changes nothing.
func (c *Client) read(op, path string, query url.Values) call {
	k := call{op: op, method: http.MethodGet, path: path, query: url.Values{}}
	for name, values := range query {
		k.query[name] = values
	}
	switch c.cfg.Reads {
	case ReadLeader:
	case ReadOwnWrites:
		k.anywhere = true
		if mark := c.lsn.String(); mark != "" {
			k.query.Set(v1.ParamMinLSN, mark)
			break
		}
		k.query.Set(v1.ParamConsistency, v1.ConsistencyLocal)
	case ReadAny:
		k.anywhere = true
		k.query.Set(v1.ParamConsistency, v1.ConsistencyLocal)
	}
	return k
}
