package dtq

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

// native makes the calls of the node.
type native struct{ api API }

// A problem is a refusal by the HTTP API, or an answer that broke off.
type problem struct {
	status int
	tag    string
	detail string
}

func (p *problem) Error() string { return p.tag + ": " + p.detail }

func (n native) enqueue(ctx context.Context, c *call, job *v1.NewJob) error {
	return n.do(ctx, c, http.MethodPost, v1.PathJobs, job, nil)
}

// claim claims one job. It returns nil if no job is available.
func (n native) claim(ctx context.Context, c *call, worker string) (*v1.ClaimedJob, error) {
	var out v1.ClaimedJob
	if err := n.do(ctx, c, http.MethodPost, v1.PathClaim, &v1.Claim{WorkerID: &worker}, &out); err != nil {
		return nil, err
	}
	if out.JobID == "" {
		return nil, nil // an empty queue is not an error
	}
	return &out, nil
}

func (n native) forceComplete(ctx context.Context, c *call, id string, in *v1.ForceComplete) error {
	return n.do(ctx, c, http.MethodPost, v1.PathJobs+"/"+url.PathEscape(id)+"/"+v1.ActionForceComplete, in, nil)
}

// job reads a job, from this node's own state if local is set.
func (n native) job(ctx context.Context, c *call, id string, local bool) (*v1.Job, error) {
	var out v1.Job
	if err := n.do(ctx, c, http.MethodGet, freshness(v1.PathJobs+"/"+url.PathEscape(id), local), nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// freshness returns the URL of a read from the leader, or from this node's own state if
// local is set.
func freshness(path string, local bool) string {
	if local {
		return path + "?" + v1.ParamConsistency + "=" + v1.ConsistencyLocal
	}
	return path
}

func (n native) register(ctx context.Context, c *call, worker string) error {
	return n.do(ctx, c, http.MethodPost, v1.PathWorkers, &v1.WorkerInfo{Name: worker}, nil)
}

// worker reads a worker's entry with the jobs that it leases, from this node's own
// state if local is set.
func (n native) worker(ctx context.Context, c *call, name string, local bool) (*v1.Worker, error) {
	var out v1.Worker
	if err := n.do(ctx, c, http.MethodGet, freshness(v1.PathWorkers+"/"+url.PathEscape(name), local), nil, &out); err != nil {
		return nil, err
	}
	if out.Running <= len(out.JobIDs) {
		return &out, nil
	}
	var err error
	out.JobIDs, err = n.leasedBy(ctx, c, name)
	return &out, err
}

// pagesMax bounds the pages of a worker's jobs that heldBy reads.
const pagesMax = 100

// leasedBy lists the jobs of a worker that leases more than its entry names.
func (n native) leasedBy(ctx context.Context, c *call, name string) (ids []string, err error) {
	q := url.Values{v1.ParamStatus: {v1.StatusInProgress}, v1.ParamWorker: {name}}
	for range pagesMax {
		var page v1.JobList
		if err := n.do(ctx, c, http.MethodGet, v1.PathJobs+"?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			ids = append(ids, page.Jobs[i].ID)
		}
		if page.NextCursor == "" {
			break
		}
		q.Set(v1.ParamCursor, page.NextCursor)
	}
	return ids, nil
}

// beatsMax is the largest number of leases that one call renews.
const beatsMax = 1000

// beat renews the leases of those jobs that the worker leases.
func (n native) beat(ctx context.Context, c *call, worker string, ids []string) error {
	for len(ids) > 0 {
		in := v1.HeartbeatBatch{WorkerID: &worker}
		for _, id := range ids[:min(len(ids), beatsMax)] {
			in.Jobs = append(in.Jobs, v1.Lease{JobID: id})
		}
		if err := n.do(ctx, c, http.MethodPost, v1.PathHeartbeat, &in, nil); err != nil {
			return err
		}
		ids = ids[len(in.Jobs):]
	}
	return nil
}

// do makes one call for a client and decodes the answer into out, unless out is nil.
func (n native) do(ctx context.Context, c *call, method, target string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in, lenient); err != nil {
			return fmt.Errorf("write the call: %w", err)
		}
	}
	var answer bytes.Buffer
	switch status, whole := n.api.Call(ctx, method, target, c.r.RemoteAddr, body, &answer); {
	case !whole:
		return &problem{http.StatusServiceUnavailable, v1.TagLeaderGone, "the connection to the leader broke before it answered"}
	case status >= http.StatusMultipleChoices:
		var p v1.Problem
		if err := json.Unmarshal(answer.Bytes(), &p, lenient); err != nil || p.Tag == "" {
			return &problem{status, v1.TagInternal, http.StatusText(status)}
		}
		return &problem{status, p.Tag, p.Detail}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(answer.Bytes(), out, lenient); err != nil {
		return fmt.Errorf("read the answer to a call: %w", err)
	}
	return nil
}
