package osqueue

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
	"osqueue/internal/limit"
	"osqueue/internal/web"
)

// native makes the calls of the node. It is safe for concurrent use.
type native struct {
	api    compat.API
	budget *limit.Budget
	lists  slots
}

func newNative(cfg *Config) *native {
	return &native{api: cfg.Calls, budget: cfg.Inflight, lists: make(slots, cfg.Limits.Lists)}
}

// A caller is the client on whose behalf an operation runs.
type caller struct {
	ctx    context.Context
	remote string // host:port
}

// validText replaces every byte that is not UTF-8.
func validText(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return []byte(string([]rune(string(b))))
}

// A submission is a job in the terms of the contract.
type submission struct {
	payload     jsontext.Value // nil if missing
	jobType     string         // "" if missing
	maxAttempts *float64       // nil if missing
}

// submit enqueues a job.
func (n *native) submit(c caller, in submission) (id string, err error) {
	job := v1.NewJob{ID: newID(), Type: in.jobType, Payload: []byte(in.payload), MaxAttempts: attempts(in.maxAttempts)}
	var out v1.Enqueued
	err = n.post(c, v1.PathJobs, &job, &out)
	return out.JobID, err
}

// newID makes the id of a job in the legacy broker's form.
func newID() string { return uuid.NewString() }

// attempts converts a limit to a whole number. A job fails for good when it has had at
// least that many attempts: fractions are rounded up, and negative limits are 0.
func attempts(limit *float64) *int32 {
	if limit == nil {
		return nil
	}
	whole := int32(math.Ceil(max(0, min(*limit, math.MaxInt32))))
	return &whole
}

// claim claims one job. It returns nil if no job is available.
func (n *native) claim(c caller, worker string, types []string) (*v1.ClaimedJob, error) {
	types, err := n.narrow(c, types)
	if err != nil {
		return nil, err
	}
	var out v1.ClaimedJob
	if err := n.post(c, v1.PathClaim, &v1.Claim{WorkerID: &worker, Types: types}, &out); err != nil {
		return nil, err
	}
	if out.JobID == "" {
		return nil, nil // an empty queue is not an error
	}
	return &out, nil
}

// heartbeat renews the worker's lease of a job if it has one.
func (n *native) heartbeat(c caller, id, worker string) error {
	id, worker = known(id, worker)
	return n.report(c, id, v1.ActionHeartbeat, &v1.Heartbeat{WorkerID: &worker})
}

// complete completes a job if the worker leases it.
func (n *native) complete(c caller, id, worker string) error {
	id, worker = known(id, worker)
	return n.report(c, id, v1.ActionComplete, &v1.Complete{WorkerID: &worker})
}

// known returns the id and the worker of a report that the API accepts. If no job or no
// worker can have the name, it returns an id that does not exist: the API still decides
// whether it accepts reports at all.
func known(id, worker string) (string, string) {
	if canBeID(id) && canBeName(worker) {
		return id, worker
	}
	return newID(), ""
}

func (n *native) report(c caller, id, action string, in any) error {
	return n.post(c, v1.PathJobs+"/"+url.PathEscape(id)+"/"+action, in, nil)
}

// stats reads the counts of the queue.
func (n *native) stats(c caller) (v1.Stats, error) {
	var out v1.Stats
	err := n.get(c, v1.PathStats+"?"+inOutages, &out)
	return out, err
}

// listCopies is how many times a list is in memory while it is answered: as the answer of the API, as values,
// and as the answer to the client.
const listCopies = 3

// A heldList is a list that takes bytes of the budget until held is released.
type heldList struct {
	v1.JobList
	size int // of its JSON, in bytes
	held limit.Hold
}

// listBuffers has lists whose memory is used again: it grows in many steps.
var listBuffers = sync.Pool{New: func() any { return new(heldAnswer) }}

// list reads the jobs of the queue, and passes them to use. Few lists are in use
// at a time. The bytes of the list count until its held is released.
func (n *native) list(c caller, use func(*heldList) error) error {
	free, err := n.lists.take(c.ctx)
	if err != nil {
		return err
	}
	defer free()
	all, a := &heldList{held: n.budget.Hold()}, listBuffers.Get().(*heldAnswer)
	a.Reset(make(http.Header))
	a.held, a.over = &all.held, false
	err = compat.Read(c.ctx, n.api, c.remote, wholeList, a)
	all.size = a.Body.Len()
	switch {
	case a.over:
		err = refuse(v1.TagOverloaded, "the node has too many bytes of requests and answers in memory; retry after a moment")
	case err == nil:
		err = compat.Decode(a, &all.JobList)
	}
	a.held = nil
	listBuffers.Put(a)
	if err == nil {
		err = use(all)
	}
	if err != nil {
		all.held.Release()
	}
	return err
}

// A heldAnswer is an answer whose bytes count in the budget before they take memory.
type heldAnswer struct {
	web.Answer
	held *limit.Hold
	over bool // the budget is used up, and the answer is not whole
}

// Write implements http.ResponseWriter.
func (a *heldAnswer) Write(b []byte) (int, error) {
	if err := a.held.Take(listCopies * len(b)); err != nil {
		a.over = true
		return 0, err
	}
	return a.Answer.Write(b)
}

func (n *native) post(c caller, path string, in, out any) error {
	return compat.Do(c.ctx, n.api, c.remote, http.MethodPost, path, in, out)
}

// get makes a read and decodes the answer into out.
func (n *native) get(c caller, target string, out any) error {
	return compat.Do(c.ctx, n.api, c.remote, http.MethodGet, target, nil, out)
}

// refuse returns a refusal of this package.
func refuse(tag, detail string) *compat.Refusal {
	return &compat.Refusal{Status: http.StatusServiceUnavailable, Tag: tag, Detail: detail}
}

// faultOf converts err to a refusal of the contract.
func faultOf(err error) *compat.Refusal {
	var f *compat.Refusal
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return refuse(v1.TagTimeout, "the call took too long")
	}
	return refuse(v1.TagInternal, "the node failed to answer")
}
