package dtq

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	v1 "osqueue/client/api/v1"
)

// submit serves POST /submit_task. dtq answers before a majority has stored the task;
// this handler answers after.
func (h *Handler) submit(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	job := v1.NewJob{ID: uuid.NewString(), Type: typeOf(in.TaskType), Payload: []byte(in.Payload)}
	if err := h.native.enqueue(c.r.Context(), c, &job); err != nil {
		return h.failed(c, err)
	}
	return jsonReply(http.StatusAccepted, struct {
		Status string `json:"status"`
		TaskID string `json:"task_id"`
	}{"accepted", job.ID})
}

// assign serves POST /get_pending_task.
func (h *Handler) assign(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	worker, asked := nameOf(in.WorkerID), time.Now()
	ctx, cancel := context.WithTimeout(c.r.Context(), h.cfg.Timeouts.Commit)
	defer cancel()
	w, unknown := h.native.worker(ctx, c, worker, true)
	j, err := h.native.claim(ctx, c, worker)
	if unknown == nil && !isDenied(err) { // the tasks that it leases and cannot run are lost; see handouts
		h.held.review(worker, w.JobIDs)
	}
	switch {
	case err != nil:
		return h.failed(c, err)
	case j == nil:
		return message(http.StatusNotFound, "No pending tasks")
	case c.r.Context().Err() == nil: // the client still waits for the answer
		h.held.given(j.JobID, worker, asked)
	}
	return jsonReply(http.StatusOK, handedOut(j))
}

// complete serves POST /complete_task. It completes the task whatever its state is and
// whichever client reports it. For a task that does not exist it does nothing.
func (h *Handler) complete(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	if id, ok := textOf(in.TaskID); ok && canBeID(id) {
		ctx, cancel := context.WithTimeout(c.r.Context(), h.cfg.Timeouts.Commit)
		defer cancel()
		err := h.native.forceComplete(ctx, c, id, &v1.ForceComplete{Result: []byte(in.Result)})
		if !isDenied(err) {
			h.held.over(id)
		}
		if err != nil && !isTag(err, v1.TagNotFound) {
			return h.failed(c, err)
		}
	}
	return message(http.StatusOK, "Task completed")
}

// idMax is the length in bytes of the longest id that a task can have.
const idMax = 1024

func canBeID(id string) bool { return id != "" && len(id) <= idMax }

const noTask = "Task not found"

// show serves GET /task/{id} on every node. If the leader does not answer, the node
// answers from its own state.
func (h *Handler) show(c *call) *reply {
	id := strings.TrimPrefix(c.r.URL.Path, taskPrefix)
	switch {
	case id == "" || strings.Contains(id, "/"):
		return refusal(http.StatusNotFound, "The requested URL was not found on the server")
	case !canBeID(id):
		return refusal(http.StatusNotFound, noTask)
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), h.cfg.Timeouts.Fresh)
	defer cancel()
	j, err := h.native.job(ctx, c, id, false)
	if err != nil && !isTag(err, v1.TagNotFound) {
		j, err = h.native.job(c.r.Context(), c, id, true)
	}
	switch {
	case isTag(err, v1.TagNotFound):
		return refusal(http.StatusNotFound, noTask)
	case err != nil:
		return h.failed(c, err)
	}
	return jsonReply(http.StatusOK, taskOf(j))
}
