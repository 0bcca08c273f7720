package regression

import (
	"fmt"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// All nodes lose their disks, and come back with empty ones. The queue is there again after the broker
// timeout and two seconds: the nodes measure the silence of the document while the cluster forms.
func TestRecoveryFromTheBucketTakesTheBrokerTimeout(t *testing.T) {
	const brokerTimeout, jobs = 10 * time.Second, 1000 // the default of a directory
	c := cluster.Start(t, cluster.Options{})
	batch := make([]client.NewJob, jobs)
	for i := range batch {
		batch[i] = client.NewJob{ID: fmt.Sprintf("job-%d", i), Type: "t"}
	}
	if _, err := c.Client.EnqueueBatch(client.WithAck(c.Context(documentPatience), client.AckObject), batch); err != nil {
		t.Fatal(err)
	}
	c.KillAll()
	began := time.Now()
	for _, n := range c.Nodes {
		n.Wipe()
		n.Start()
	}
	if _, err := c.Client.Enqueue(c.Context(patience), client.NewJob{ID: "after", Type: "t"}); err != nil {
		t.Fatal(err)
	}
	within(t, fmt.Sprintf("all disks are lost, %d jobs: until a write", jobs), time.Since(began), brokerTimeout+2*time.Second)
	mustHave(t, c, []string{"job-0", fmt.Sprintf("job-%d", jobs-1), "after"})
}
