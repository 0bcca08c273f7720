package cluster_test

import (
	"errors"
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
