package osqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	v1 "osqueue/api/v1"
	"osqueue/compat/internal/inprocess"
)

// native does the operations, as a client of the node's HTTP API within the
// process. It is safe for concurrent use.
type native struct {
	api       http.Handler
	lists     places
	listBytes int
}

func newNative(cfg *Config) *native {
	return &native{
		api:       cfg.Calls,
		lists:     make(places, cfg.Limits.Lists),
		listBytes: cfg.Limits.ListBytes,
	}
}

// caller is on whose behalf an operation is done.
type caller struct {
	ctx    context.Context
	remote string // host:port
}

// What payloads may hold, as the API reads them. Texts in them stay as they are
// written: halves of surrogate pairs can only be escaped.
var lenient = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true),
)

// validText is text in which every byte that is not UTF-8 has been replaced.
func validText(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return []byte(string([]rune(string(b))))
}

// submission is a job in the terms of the contract.
type submission struct {
	payload     jsontext.Value // nil: none
	jobType     string         // "": none
	maxAttempts *float64       // nil: none
}

// submit enqueues a job.
func (n *native) submit(c caller, in submission) (id string, err error) {
	job := v1.NewJob{ID: newID(), Type: in.jobType, Payload: in.payload, MaxAttempts: attempts(in.maxAttempts)}
	var out v1.Enqueued
	err = n.post(c, v1.PathJobs, &job, &out)
	return out.JobID, err
}

// newID makes the id of a job, of the form that the original gives.
func newID() string { return uuid.NewString() }

// attempts is a limit as the machine has it. A job is dropped when it has had as
// many attempts as the limit, or more; so fractions are rounded up, and all
// limits below zero are alike.
func attempts(limit *float64) *int32 {
	if limit == nil {
		return nil
	}
	whole := int32(math.Ceil(max(0, min(*limit, math.MaxInt32))))
	return &whole
}

// claim gets a job, or nil if there is none.
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
		return nil, nil //nolint:nilnil // that there is none is no error
	}
	return &out, nil
}

// heartbeat renews the worker's lease of a job, if it has one.
func (n *native) heartbeat(c caller, id, worker string) error {
	id, worker = known(id, worker)
	return n.report(c, id, v1.ActionHeartbeat, &v1.Heartbeat{WorkerID: &worker})
}

// complete ends a job well, if the worker holds it.
func (n *native) complete(c caller, id, worker string) error {
	id, worker = known(id, worker)
	return n.report(c, id, v1.ActionComplete, &v1.Complete{WorkerID: &worker})
}

// known is a report that the API takes: if no job, or no worker, can have that name it
// is one on a job that is not there. Whether reports are taken at all, and who leads,
// is for the API to say.
func known(id, worker string) (string, string) {
	if canBeID(id) && canBeName(worker) {
		return id, worker
	}
	return newID(), ""
}

func (n *native) report(c caller, id, action string, in any) error {
	return n.post(c, v1.PathJobs+"/"+url.PathEscape(id)+"/"+action, in, nil)
}

// stats are the figures of the queue.
func (n *native) stats(c caller) (v1.Stats, error) {
	var out v1.Stats
	err := n.do(c, http.MethodGet, v1.PathStats, nil, &out)
	return out, err
}

// pagesMax bounds how many pages a list is made of, should they be small.
const pagesMax = 1000

// list is the jobs of the queue: as many as there is room for. Lists are large, so
// there are only some at once; release is to be called when this one is not needed
// any more.
func (n *native) list(c caller) (all *v1.JobList, release func(), err error) {
	if release, err = n.lists.take(c.ctx); err != nil {
		return nil, nil, err
	}
	all = new(v1.JobList)
	size, err := n.page(c, "", all)
	if err == nil {
		err = follow(n, c, size, all.NextCursor, func(more *v1.JobList) string {
			all.Jobs = append(all.Jobs, more.Jobs...)
			return more.NextCursor
		})
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return all, release, nil
}

// follow gives add the pages from a cursor on, while there is room, and add returns
// the cursor of the next; size is what there is already, in bytes.
func follow[T any](n *native, c caller, size int, cursor string, add func(*T) (next string)) error {
	for range pagesMax {
		if cursor == "" || size >= n.listBytes {
			return nil
		}
		page := new(T)
		bytes, err := n.page(c, cursor, page)
		if err != nil {
			return err
		}
		size += bytes
		cursor = add(page)
	}
	return nil
}

func (n *native) page(c caller, cursor string, into any) (size int, err error) {
	target := v1.PathJobs
	if cursor != "" {
		target += "?" + v1.ParamCursor + "=" + url.QueryEscape(cursor)
	}
	a, err := n.answer(c, http.MethodGet, target, nil)
	if err != nil {
		return 0, err
	}
	return a.Body.Len(), read(a, into)
}

func (n *native) post(c caller, path string, in, out any) error {
	return n.do(c, http.MethodPost, path, in, out)
}

// do makes one call. The answer is read into out, unless that is nil.
func (n *native) do(c caller, method, target string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in, lenient); err != nil {
			return fmt.Errorf("write the call: %w", err)
		}
	}
	a, err := n.answer(c, method, target, body)
	if err != nil || out == nil {
		return err
	}
	return read(a, out)
}

// answer makes one call and returns its answer if it is a success.
func (n *native) answer(c caller, method, target string, body []byte) (*inprocess.Answer, error) {
	r, err := http.NewRequestWithContext(c.ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, &fault{v1.TagBadRequest, "the call has no path"}
	}
	r.RequestURI, r.RemoteAddr = target, c.remote
	if len(body) > 0 {
		r.Header["Content-Type"] = []string{"application/json"}
	}
	a := inprocess.NewAnswer(make(http.Header))
	if !a.Of(n.api, r) {
		return nil, &fault{v1.TagLeaderGone, "the connection to the leader broke before it answered"}
	}
	if err := c.ctx.Err(); err != nil && a.Status >= http.StatusInternalServerError {
		return nil, err
	}
	if a.Status >= http.StatusMultipleChoices {
		return nil, faultIn(a)
	}
	return a, nil
}

func read(a *inprocess.Answer, into any) error {
	if err := json.Unmarshal(a.Body.Bytes(), into, lenient); err != nil {
		return fmt.Errorf("read the answer to a call: %w", err)
	}
	return nil
}

// fault is the refusal that the answer is.
func faultIn(a *inprocess.Answer) *fault {
	var p v1.Problem
	if err := json.Unmarshal(a.Body.Bytes(), &p, lenient); err != nil || p.Tag == "" {
		return &fault{v1.TagInternal, http.StatusText(a.Status)}
	}
	return &fault{p.Tag, p.Detail}
}

// faultOf is what the contract calls err.
func faultOf(err error) *fault {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &fault{v1.TagTimeout, "it took too long"}
	}
	return &fault{v1.TagInternal, "the node failed to answer"}
}
