package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "osqueue/client/api/v1"
)

// Workers returns the registered workers, ordered by name.
func (c *Admin) Workers(ctx context.Context) ([]v1.Worker, error) {
	list := call{op: "list workers", path: v1.PathWorkers}
	return collect(pages(ctx, c.caller, list, func(p v1.WorkerList) ([]v1.Worker, string) { return p.Workers, p.NextCursor }))
}

// Worker returns a registered worker and the first of its running jobs.
func (c *Admin) Worker(ctx context.Context, name string) (v1.Worker, error) {
	return sendRead[v1.Worker](ctx, c.caller, call{op: "get worker", prefix: v1.PathWorkers, name: name})
}

// RegisterWorker registers a worker, or extends its registration.
func (c *Admin) RegisterWorker(ctx context.Context, info WorkerInfo) error {
	k := call{op: "register worker", path: v1.PathWorkers, in: &info, write: true, passing: true, hollow: true}
	_, err := send[v1.WorkerAnswer](ctx, c.caller, k)
	return err
}

// QuietWorker makes a registered worker quiet: it gets no new jobs, and finishes those that it
// runs. It stays quiet until UnquietWorker, over changes of leader, and if it registers again
// within 24 h.
func (c *Admin) QuietWorker(ctx context.Context, name string) error {
	return sendDone(ctx, c.caller, call{op: "quiet worker", prefix: v1.PathWorkers, name: name, action: v1.ActionQuiet, safe: true})
}

// UnquietWorker lets a quiet worker get jobs again.
func (c *Admin) UnquietWorker(ctx context.Context, name string) error {
	return sendDone(ctx, c.caller, call{op: "unquiet worker", prefix: v1.PathWorkers, name: name, action: v1.ActionUnquiet, safe: true})
}

// RemoveWorker marks a worker dead: it removes the registration and releases the
// jobs of the worker at once. A worker that was quiet gets jobs again if it comes back.
func (c *Admin) RemoveWorker(ctx context.Context, name string) error {
	return c.RemoveInstance(ctx, name, "")
}

// RemoveInstance is RemoveWorker for one instance: jobs of other workers of that name go on, and
// one that has registered since stays registered.
func (c *Admin) RemoveInstance(ctx context.Context, name, instance string) error {
	w := call{op: "remove worker", method: http.MethodDelete, prefix: v1.PathWorkers, name: name, safe: true}
	if instance != "" {
		w.query = url.Values{v1.ParamInstance: {instance}}
	}
	return sendDone(ctx, c.caller, w)
}
