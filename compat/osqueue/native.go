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
	api       compat.API
	budget    *limit.Budget
	lists     slots
	listBytes int
}

func newNative(cfg *Config) *native {
	return &native{
		api:       cfg.Calls,
		budget:    cfg.Inflight,
		lists:     make(slots, cfg.Limits.Lists),
		listBytes: cfg.Limits.ListBytes,
	}
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
	err := n.get(c, v1.PathStats, &out)
	return out, err
}

// pagesMax is the largest number of pages that a list is made of.
const pagesMax = 1000

// listCopies is how many times a list is in memory while it is answered: as a page of the API, as values,
// and as the answer.
const listCopies = 3

// A heldList is a list that takes bytes of the budget until held is released.
type heldList struct {
	v1.JobList
	size int // of its pages, in bytes
	held limit.Hold
}

// list reads the jobs of the queue up to Limits.ListBytes, and passes them to use. Few lists are in use
// at a time. The bytes of the list count until its held is released.
func (n *native) list(c caller, use func(*heldList) error) error {
	free, err := n.lists.take(c.ctx)
	if err != nil {
		return err
	}
	defer free()
	a := pageBuffers.Get().(*heldPage)
	defer a.free()
	all := &heldList{held: n.budget.Hold()}
	err = n.page(c, "", a, all, &all.JobList)
	for range pagesMax {
		if err != nil || all.NextCursor == "" || all.size >= n.listBytes {
			break
		}
		var more v1.JobList
		err = n.page(c, all.NextCursor, a, all, &more)
		all.Jobs, all.NextCursor = append(all.Jobs, more.Jobs...), more.NextCursor
	}
	if err == nil {
		err = use(all)
	}
	if err != nil {
		all.held.Release()
	}
	return err
}

// page reads the page of a list that begins at a cursor.
func (n *native) page(c caller, cursor string, a *heldPage, of *heldList, into *v1.JobList) error {
	target := v1.PathJobs
	if cursor != "" {
		target += "?" + v1.ParamCursor + "=" + url.QueryEscape(cursor)
	}
	a.begin(&of.held)
	err := n.ask(c, target, a)
	if a.over {
		return refuse(v1.TagOverloaded, "the node has too many bytes of requests and answers in memory; retry after a moment")
	}
	if err != nil {
		return err
	}
	of.size += a.Body.Len()
	return compat.Decode(a, into)
}

// A heldPage is a page whose bytes count in the budget before they take memory.
type heldPage struct {
	web.Answer
	held *limit.Hold
	over bool // the budget is used up, and the page is not whole
}

// pageBuffers has pages whose memory is used again: it grows in many steps.
var pageBuffers = sync.Pool{New: func() any { return new(heldPage) }}

// begin begins a new page.
func (a *heldPage) begin(held *limit.Hold) {
	a.Reset(make(http.Header))
	a.held, a.over = held, false
}

// free lets another list use the memory.
func (a *heldPage) free() {
	a.held = nil
	pageBuffers.Put(a)
}

// Write implements http.ResponseWriter.
func (a *heldPage) Write(b []byte) (int, error) {
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
	a := web.NewAnswer(make(http.Header))
	if err := n.ask(c, target, a); err != nil {
		return err
	}
	return compat.Decode(a, out)
}

// ask makes a read. One that is refused because the bucket takes no writes is repeated, see onOwnState.
func (n *native) ask(c caller, target string, into interface {
	compat.Kept
	Reset(http.Header)
},
) error {
	err := compat.Ask(c.ctx, n.api, c.remote, http.MethodGet, target, nil, into)
	own, ok := onOwnState(http.MethodGet, target)
	if f := (*compat.Refusal)(nil); !ok || !errors.As(err, &f) || f.Tag != v1.TagFlushLag {
		return err
	}
	into.Reset(make(http.Header))
	return compat.Ask(c.ctx, n.api, c.remote, http.MethodGet, own, nil, into)
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
