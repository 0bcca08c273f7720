package dtq

import (
	"context"
	"net/http"
	"time"

	v1 "osqueue/api/v1"
)

// register is POST /register_worker. The worker begins anew: it is not said any
// more that it works on what it got before.
func (h *Handler) register(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	worker, asked := nameOf(in.WorkerID), time.Now()
	ctx, cancel := context.WithTimeout(c.r.Context(), h.cfg.Timeouts.Sign)
	defer cancel()
	err := h.native.register(ctx, c, worker)
	// Without a leader nobody says that a name cannot be, and it may be as long as a body.
	if len(worker) <= idMax && !isTag(err, v1.TagBadRequest) {
		h.held.beginsAnew(worker, asked)
	}
	return h.sign(err, "Registered")
}

// heartbeat is POST /heartbeat. It renews the leases of what the worker works on.
func (h *Handler) heartbeat(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), h.cfg.Timeouts.Sign)
	defer cancel()
	return h.sign(h.beat(ctx, c, nameOf(in.WorkerID)), "OK")
}

// beat is a sign of life of a worker, which may be a new one.
func (h *Handler) beat(ctx context.Context, c *call, name string) error {
	w, err := h.native.worker(ctx, c, name, false)
	fresh := isTag(err, v1.TagNotFound)
	if fresh {
		if err = h.native.register(ctx, c, name); err == nil {
			w, err = h.native.worker(ctx, c, name, false)
		}
	}
	if err != nil {
		return err
	}
	ids := h.held.renewable(name, w.JobIDs)
	if len(ids) > 0 {
		return h.native.beat(ctx, c, name, ids)
	}
	if fresh {
		return nil
	}
	return h.native.register(ctx, c, name)
}

// sign answers a sign of life. It is taken by every node of the original, whatever
// the others do: if it did not come to the leader, the next one will. One with a name
// that no worker can have here, since it would get no task, is taken like any other.
func (h *Handler) sign(err error, text string) *reply {
	if err != nil {
		h.cfg.Logger.Debug("a sign of life has no effect", "error", err)
	}
	return message(http.StatusOK, text)
}
