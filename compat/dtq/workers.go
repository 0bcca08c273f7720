package dtq

import (
	"context"
	"net/http"
	"time"

	v1 "osqueue/client/api/v1"
)

// register serves POST /register_worker. After it the worker runs none of the tasks
// that it received before.
func (h *Handler) register(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	worker, asked := nameOf(in.WorkerID), time.Now()
	ctx, cancel := context.WithTimeout(c.r.Context(), h.cfg.Timeouts.Sign)
	defer cancel()
	err := h.native.register(ctx, c, worker)
	// Without a leader no node has checked the name, which may be as long as a body.
	if len(worker) <= idMax && !isTag(err, v1.TagBadRequest) && !isDenied(err) {
		h.held.registered(worker, asked)
	}
	return h.sign(err, "Registered")
}

// heartbeat serves POST /heartbeat. It renews the leases of the tasks that the worker
// runs.
func (h *Handler) heartbeat(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), h.cfg.Timeouts.Sign)
	defer cancel()
	return h.sign(h.beat(ctx, c, nameOf(in.WorkerID)), "OK")
}

// beat processes a heartbeat. It registers a worker that is not known.
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

// sign answers a registration or a heartbeat. As in dtq every node accepts it, also if
// it did not reach the leader: the next one will. A name that no worker can have is
// accepted too, since such a worker gets no task.
func (h *Handler) sign(err error, text string) *reply {
	if err != nil {
		h.cfg.Logger.Debug("heartbeat has no effect", "error", err)
	}
	return message(http.StatusOK, text)
}
