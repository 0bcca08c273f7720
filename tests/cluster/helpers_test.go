package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

const patience = 20 * time.Second

var errNotYet = errors.New("not yet")

// enqueue adds a job and returns its id.
func enqueue(t *testing.T, c *cluster.Cluster, job client.NewJob) string {
	t.Helper()
	e, err := c.Client.Enqueue(c.Context(patience), job)
	if err != nil {
		t.Fatal(err)
	}
	return e.JobID
}

// claim claims the one job that waits, as worker w.
func claim(t *testing.T, c *cluster.Cluster, lease time.Duration) client.ClaimedJob {
	t.Helper()
	jobs, err := c.Client.Claim(c.Context(patience), client.ClaimOptions{Worker: "w", Lease: lease, Wait: 10 * time.Second})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("claimed %d jobs: %v", len(jobs), err)
	}
	return jobs[0]
}

// inStep waits until every node has applied the same.
func inStep(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Eventually(patience, "all nodes to have the same log", func() error {
		var lsns []string
		for _, n := range c.Nodes {
			s, err := n.Status()
			if err != nil {
				return err
			}
			lsns = append(lsns, s.LSN)
		}
		if len(slices.Compact(slices.Clone(lsns))) != 1 {
			return fmt.Errorf("they are at %v", lsns)
		}
		return nil
	})
}

// document is queue.json as it stands in the directory that is the bucket.
func document(t *testing.T, c *cluster.Cluster) (d struct {
	Broker          string
	BrokerHeartbeat int64
},
) {
	t.Helper()
	data, err := os.ReadFile(strings.TrimPrefix(c.Bucket(), "file://") + "/queue.json")
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}
