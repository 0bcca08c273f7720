package dtq

import (
	"context"
	"net/http"
	"net/url"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
)

// native makes the calls of the node.
type native struct{ api compat.API }

func (n native) enqueue(ctx context.Context, c *call, job *v1.NewJob) error {
	return compat.Do(ctx, n.api, c.r.RemoteAddr, http.MethodPost, v1.PathJobs, job, nil)
}

// claim claims one job. It returns nil if no job is available.
func (n native) claim(ctx context.Context, c *call, worker string) (*v1.ClaimedJob, error) {
	var out v1.ClaimedJob
	if err := compat.Do(ctx, n.api, c.r.RemoteAddr, http.MethodPost, v1.PathClaim, &v1.Claim{WorkerID: &worker}, &out); err != nil {
		return nil, err
	}
	if out.JobID == "" {
		return nil, nil // an empty queue is not an error
	}
	return &out, nil
}

func (n native) forceComplete(ctx context.Context, c *call, id string, in *v1.ForceComplete) error {
	return compat.Do(ctx, n.api, c.r.RemoteAddr, http.MethodPost, v1.PathJobs+"/"+url.PathEscape(id)+"/"+v1.ActionForceComplete, in, nil)
}

// job reads a job, from this node's own state if local is set.
func (n native) job(ctx context.Context, c *call, id string, local bool) (*v1.Job, error) {
	var out v1.Job
	if err := compat.Do(ctx, n.api, c.r.RemoteAddr, http.MethodGet, freshness(v1.PathJobs+"/"+url.PathEscape(id), local), nil, &out); err != nil {
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
	return compat.Do(ctx, n.api, c.r.RemoteAddr, http.MethodPost, v1.PathWorkers, &v1.WorkerInfo{Name: worker}, nil)
}

// worker reads a worker's entry with the jobs that it leases, from this node's own
// state if local is set.
func (n native) worker(ctx context.Context, c *call, name string, local bool) (*v1.Worker, error) {
	var out v1.Worker
	if err := compat.Do(ctx, n.api, c.r.RemoteAddr, http.MethodGet, freshness(v1.PathWorkers+"/"+url.PathEscape(name), local), nil, &out); err != nil {
		return nil, err
	}
	if out.Running <= len(out.JobIDs) {
		return &out, nil
	}
	var err error
	out.JobIDs, err = n.leasedBy(ctx, c, name)
	return &out, err
}

// pagesMax bounds the pages of a worker's jobs that leasedBy reads.
const pagesMax = 100

// leasedBy lists the jobs of a worker that leases more than its entry names.
func (n native) leasedBy(ctx context.Context, c *call, name string) (ids []string, err error) {
	q := url.Values{v1.ParamStatus: {v1.StatusInProgress}, v1.ParamWorker: {name}}
	for range pagesMax {
		var page v1.JobList
		if err := compat.Do(ctx, n.api, c.r.RemoteAddr, http.MethodGet, v1.PathJobs+"?"+q.Encode(), nil, &page); err != nil {
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
		if err := compat.Do(ctx, n.api, c.r.RemoteAddr, http.MethodPost, v1.PathHeartbeat, &in, nil); err != nil {
			return err
		}
		ids = ids[len(in.Jobs):]
	}
	return nil
}
