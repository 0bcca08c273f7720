package client

import (
	"context"
	"net/http"

	v1 "osqueue/client/api/v1"
)

// Workers returns the registered workers, ordered by name.
func (c *Client) Workers(ctx context.Context) ([]v1.Worker, error) {
	list := listing{op: "list workers", path: v1.PathWorkers}
	return collect(pages(ctx, c, list, func(p v1.WorkerList) ([]v1.Worker, string) { return p.Workers, p.NextCursor }))
}

// Worker returns a registered worker and the first of its running jobs.
func (c *Client) Worker(ctx context.Context, name string) (v1.Worker, error) {
	const op = "get worker"
	path, err := namePath(v1.PathWorkers, name, "")
	if err != nil {
		return v1.Worker{}, local(op, err)
	}
	return send[v1.Worker](ctx, c, c.read(op, path, nil).about(name))
}

// RegisterWorker registers a worker, or extends its registration.
func (c *Client) RegisterWorker(ctx context.Context, info WorkerInfo) error {
	const op = "register worker"
	body, err := encode(v1.WorkerInfo{Name: info.Name, Types: info.Types, Version: info.Version, Address: info.Address})
	if err != nil {
		return local(op, err)
	}
	k := call{op: op, method: http.MethodPost, path: v1.PathWorkers, body: body, write: true, passing: true}
	return c.do(ctx, k, acknowledged[v1.WorkerAnswer])
}

// RemoveWorker marks a worker dead: it removes the registration and releases the
// jobs of the worker at once.
func (c *Client) RemoveWorker(ctx context.Context, name string) error {
	const op = "remove worker"
	path, err := namePath(v1.PathWorkers, name, "")
	if err != nil {
		return local(op, err)
	}
	return c.do(ctx, call{op: op, method: http.MethodDelete, path: path, write: true}, acknowledged[v1.WorkerAnswer])
}
