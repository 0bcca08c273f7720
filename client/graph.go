package client

import (
	"context"
	"net/url"
	"strconv"

	v1 "osqueue/client/api/v1"
)

// JobGraph returns the jobs before and behind a job: those that it was enqueued to run after,
// and those that run after it, over any number of steps. limit is the largest number of jobs and
// batches in the graph, of which the nearest come first; 0 means the server's default.
func (c *Client) JobGraph(ctx context.Context, id string, limit int) (v1.Graph, error) {
	q := url.Values{}
	if limit != 0 {
		q.Set(v1.ParamLimit, strconv.Itoa(limit))
	}
	return readName[v1.Graph](ctx, c, named{op: "get job graph", prefix: v1.PathJobs, name: id, action: v1.ActionGraph, query: q})
}
