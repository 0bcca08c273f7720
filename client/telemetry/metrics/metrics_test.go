package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"osqueue/client"
	"osqueue/client/telemetry/metrics"
	"osqueue/client/worker"
)

// cluster is a worker.Queue that gives one job and then none.
type cluster struct {
	worker.Queue
	given int
}

func (c *cluster) Claim(context.Context, client.ClaimOptions) ([]client.ClaimedJob, error) {
	c.given++
	switch c.given {
	case 1:
		return []client.ClaimedJob{{ID: "1", Type: "mail"}}, nil
	case 2:
		return nil, nil
	}
	return nil, errors.New("away")
}

func (c *cluster) Heartbeat(context.Context, string, []client.Lease) ([]client.Beat, error) {
	return nil, nil
}

func (c *cluster) CompleteAndClaim(context.Context, []client.Completion, client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	return nil, make([]client.ClaimedJob, 2), nil
}

// The metrics follow the conventions of Prometheus, and are those of the calls.
func TestWorkerMetrics(t *testing.T) {
	m := metrics.New(metrics.Config{Capacity: 4})
	q := m.Queue(&cluster{})
	for range 3 {
		_, _ = q.Claim(t.Context(), client.ClaimOptions{})
	}
	_, _ = q.Heartbeat(t.Context(), "w", nil)
	if _, claimed, _ := q.CompleteAndClaim(t.Context(), nil, client.ClaimOptions{}); len(claimed) != 2 {
		t.Error("the claim of a completion is lost")
	}
	job := worker.Job{ClaimedJob: client.ClaimedJob{Type: "mail"}}
	run := m.Middleware(func(context.Context, worker.Job) (json.RawMessage, error) {
		if n := testutil.CollectAndCount(m, "osqueue_worker_jobs_running"); n != 1 {
			t.Errorf("%d running series", n)
		}
		return nil, nil
	})
	_, _ = run(t.Context(), job)
	m.Finished(worker.Finished{Job: job, Outcome: worker.Completed, Took: 2 * time.Second})
	want := `# HELP osqueue_worker_capacity_jobs Jobs that the worker runs at once at most.
# TYPE osqueue_worker_capacity_jobs gauge
osqueue_worker_capacity_jobs 4
# HELP osqueue_worker_claims_total Claims by result: jobs, none or error.
# TYPE osqueue_worker_claims_total counter
osqueue_worker_claims_total{result="error"} 1
osqueue_worker_claims_total{result="jobs"} 2
osqueue_worker_claims_total{result="none"} 1
# HELP osqueue_worker_claims_waiting Claims that wait for a job.
# TYPE osqueue_worker_claims_waiting gauge
osqueue_worker_claims_waiting 0
# HELP osqueue_worker_jobs_finished_total Jobs that the worker no longer holds, by outcome.
# TYPE osqueue_worker_jobs_finished_total counter
osqueue_worker_jobs_finished_total{outcome="completed",type="mail"} 1
# HELP osqueue_worker_jobs_running Jobs whose handlers run.
# TYPE osqueue_worker_jobs_running gauge
osqueue_worker_jobs_running{type="mail"} 0
`
	names := []string{"capacity_jobs", "claims_total", "claims_waiting", "jobs_finished_total", "jobs_running"}
	for i := range names {
		names[i] = "osqueue_worker_" + names[i]
	}
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(m)
	if err != nil || len(problems) > 0 {
		t.Errorf("problems %v, %v", problems, err)
	}
}

// The number of series is bounded.
func TestTypesAreBounded(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for i := range 1000 {
		m.Finished(worker.Finished{Job: worker.Job{ClaimedJob: client.ClaimedJob{Type: fmt.Sprint(i)}}, Outcome: worker.Failed})
	}
	m.Finished(worker.Finished{Job: worker.Job{ClaimedJob: client.ClaimedJob{Type: "\xff"}}, Outcome: worker.Failed})
	if n := testutil.CollectAndCount(m, "osqueue_worker_jobs_finished_total"); n != metrics.TypesMax+1 {
		t.Errorf("%d series", n)
	}
	prometheus.NewPedanticRegistry().MustRegister(m)
}
