package regression

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// On three real nodes, a job and the claim that waited for it are one log entry, and each
// of many waiting claims gets one job.
func TestWaitingClaimsShareAnEntryWithTheirJobs(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 3})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const claims = 8
	var wg sync.WaitGroup
	got := make([]client.ClaimedJob, claims)
	for i := range claims {
		wg.Go(func() {
			jobs, err := c.Client.Claim(ctx, client.ClaimOptions{Worker: fmt.Sprint("w", i), Types: []string{"t"}, Wait: patience})
			if err != nil || len(jobs) != 1 {
				t.Errorf("claim %d: %d jobs, %v", i, len(jobs), err)
				return
			}
			got[i] = jobs[0]
		})
	}
	c.Eventually(patience, "all claims to wait", func() error {
		if n := waitingClaims(ctx, t, c); n != claims {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	before := appliedIndex(t, c)
	for i := range claims {
		if _, err := c.Client.Enqueue(ctx, client.NewJob{ID: fmt.Sprint("j", i), Type: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	entries := appliedIndex(t, c) - before
	t.Logf("%d entries for %d enqueues and as many claims", entries, claims)
	if entries > claims+claims/2 {
		t.Errorf("%d entries for %d enqueues and as many claims, want about %d", entries, claims, claims)
	}
	held := make(map[string]bool)
	for _, j := range got {
		if held[j.ID] {
			t.Errorf("job %s was claimed twice", j.ID)
		}
		held[j.ID] = true
	}
}

// waitingClaims returns the number of claims that wait at the leader.
func waitingClaims(ctx context.Context, t *testing.T, c *cluster.Cluster) (n int) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.WaitLeader().HTTP+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "osqueue_claims_waiting "); found {
			n, err = strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// appliedIndex returns the index of the newest entry that the leader has applied.
func appliedIndex(t *testing.T, c *cluster.Cluster) uint64 {
	t.Helper()
	var applied uint64
	c.Eventually(patience, "the active leader to say what it has applied", func() error {
		for _, n := range c.Nodes {
			if s, err := n.Status(); err == nil && s.Fence.State == "active" {
				applied = s.Applied
				return nil
			}
		}
		return errors.New("no node is the active leader")
	})
	return applied
}

// A worker of one slot needs about one entry for each job of a queue: the report carries the
// next claim.
func TestReportsCarryClaimsOnRealNodes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const jobs = 40
	batch := make([]client.NewJob, jobs)
	for i := range batch {
		batch[i] = client.NewJob{ID: fmt.Sprint("j", i), Type: "t"}
	}
	if _, err := c.Client.EnqueueBatch(ctx, batch); err != nil {
		t.Fatal(err)
	}
	before := appliedIndex(t, c)
	c.StartWorker("worker", "--exec", "t=true", "--concurrency", "1")
	c.Eventually(patience, "all jobs to be completed", func() error {
		s, err := c.Nodes[0].Status()
		if err == nil && s.Tasks.Completed < jobs {
			err = fmt.Errorf("%d are", s.Tasks.Completed)
		}
		return err
	})
	entries := appliedIndex(t, c) - before
	t.Logf("%d entries for %d jobs", entries, jobs)
	if entries > jobs*3/2 {
		t.Errorf("%d entries for %d jobs, want about one for each", entries, jobs)
	}
}
