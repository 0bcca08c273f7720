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
	const op = "get job graph"
	path, err := jobPath(id, v1.ActionGraph)
	if err != nil {
		return v1.Graph{}, local(op, err)
	}
	q := url.Values{}
	if limit != 0 {
		q.Set(v1.ParamLimit, strconv.Itoa(limit))
	}
	return send[v1.Graph](ctx, c, c.read(ctx, op, path, q).about(id))
}
