package main

import (
	"context"
	"fmt"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

// jobType is the type of all jobs, and the name of the queue in systems with named queues.
const jobType = "bench"

// osqueue is a cluster of three processes.
type osqueue struct {
	cluster *cluster.Cluster
	leader  *cluster.Node
	client  *client.Client
}

func startCluster(p *measure.Place) *osqueue {
	c := cluster.Start(p, cluster.Options{})
	return &osqueue{cluster: c, leader: c.WaitLeader(), client: c.Client}
}

// startOsqueue starts a cluster whose callers share one client of the SDK.
func startOsqueue(p *measure.Place) (queue, error) { return startCluster(p), nil }

func (q *osqueue) roles() []role {
	leader, followers := role{name: "leader"}, role{name: "followers"}
	for _, n := range q.cluster.Nodes {
		if n == q.leader {
			leader.pids = append(leader.pids, n.Pid())
		} else {
			followers.pids = append(followers.pids, n.Pid())
		}
	}
	return []role{leader, followers}
}

func (q *osqueue) entries() (uint64, error) {
	s, err := q.leader.Status()
	return s.CommitIndex, err
}

func (q *osqueue) newCaller(i, _ int) (caller, error) {
	return &sdkCaller{client: q.client, worker: workerName(i)}, nil
}

func workerName(i int) string { return fmt.Sprintf("w%d", i) }

// sdkCaller uses a client that it shares with other callers.
type sdkCaller struct {
	client *client.Client
	worker string
}

func (c *sdkCaller) close() {}

func (c *sdkCaller) enqueue(ctx context.Context, payload []byte) error {
	_, err := c.client.Enqueue(ctx, client.NewJob{Type: jobType, Payload: payload})
	return err
}

func (c *sdkCaller) enqueueBatch(ctx context.Context, payloads [][]byte) error {
	jobs := make([]client.NewJob, len(payloads))
	for i, p := range payloads {
		jobs[i] = client.NewJob{Type: jobType, Payload: p}
	}
	_, err := c.client.EnqueueBatch(ctx, jobs)
	return err
}

func (c *sdkCaller) claim(ctx context.Context) (job, error) {
	jobs, err := c.client.Claim(ctx, client.ClaimOptions{Worker: c.worker, Wait: claimWait})
	if err != nil {
		return job{}, err
	}
	return c.claimed(jobs)
}

func (c *sdkCaller) claimed(jobs []client.ClaimedJob) (job, error) {
	if len(jobs) == 0 {
		return job{}, errNoJob
	}
	return job{
		payload:  jobs[0].Payload,
		complete: func(ctx context.Context) error { return c.client.Complete(ctx, jobs[0].Lease(), nil) },
		completeAndClaim: func(ctx context.Context) (job, error) {
			beats, next, err := c.client.CompleteAndClaim(ctx,
				[]client.Completion{{Lease: jobs[0].Lease()}}, client.ClaimOptions{Worker: c.worker})
			if err == nil && beats[0].Tag != "" {
				err = fmt.Errorf("complete %s: refused: %s", jobs[0].ID, beats[0].Tag)
			}
			if err != nil {
				return job{}, err
			}
			return c.claimed(next)
		},
	}, nil
}
