package queue

import (
	"context"
	"fmt"
	"slices"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// checkType returns an error if nothing is known of a type: it has no job and no
// setting, and no worker names it. A misspelt name is not taken for a type then.
func checkType(ctx context.Context, c *client.Client, name string) error {
	q, err := c.Queue(ctx, name)
	if err != nil || q.TypeStats != (v1.TypeStats{}) || q.Settings != (v1.QueueSettings{}) {
		return err
	}
	workers, err := c.Workers(ctx)
	if err != nil || slices.ContainsFunc(workers, func(w v1.Worker) bool { return slices.Contains(w.Types, name) }) {
		return err
	}
	return fmt.Errorf("type %q does not exist: it has no jobs, settings or workers (osqueue queue ls lists the types)", name)
}

// checkNamed returns an error if the type or the batch that a filter names does not
// exist.
func checkNamed(ctx context.Context, f *view.Filter, c *client.Client) error {
	if f.Type != "" {
		if err := checkType(ctx, c, f.Type); err != nil {
			return err
		}
	}
	if f.Batch != "" {
		if _, err := c.Batch(ctx, f.Batch); err != nil {
			return err
		}
	}
	return nil
}

// workerless returns the types that no worker takes. It asks for the workers once, when
// the first type with available jobs is met.
type workerless struct {
	c       *client.Client
	asked   bool
	workers []v1.Worker
	fault   error
}

// waits reports whether a type has available jobs that no registered worker takes.
func (w *workerless) waits(ctx context.Context, q v1.Queue) bool {
	if q.Unclaimed == 0 || q.InProgress > 0 {
		return false
	}
	if !w.asked {
		w.asked = true
		w.workers, w.fault = w.c.Workers(ctx)
	}
	return w.fault == nil && q.LacksWorker(w.workers)
}
