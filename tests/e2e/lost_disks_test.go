package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
)

// All nodes lose their disks, and come back with empty ones. The queue is there again after the broker
// timeout of the store and two seconds, with OSQUEUE_RECOVERY jobs and six: the nodes measure the
// silence of the document while the cluster forms.
func TestRecoveryFromTheBucketTakesTheBrokerTimeout(t *testing.T) {
	t.Run("directory", func(t *testing.T) { recovers(t, store.File, 1000, 10*time.Second+2*time.Second) })
	jobs, err := strconv.Atoi(os.Getenv("OSQUEUE_RECOVERY"))
	if err != nil {
		t.Skip("OSQUEUE_RECOVERY is not set; make soak sets it")
	}
	t.Run("S3", func(t *testing.T) { recovers(t, store.GoFakeS3, 1000, 30*time.Second+2*time.Second) })
	t.Run("directory, many jobs", func(t *testing.T) { recovers(t, store.File, jobs, 10*time.Second+6*time.Second) })
	t.Run("S3, many jobs", func(t *testing.T) { recovers(t, store.GoFakeS3, jobs, 30*time.Second+6*time.Second) })
}

// recovers fails unless a cluster with that many jobs takes a write within limit after the loss of all disks.
func recovers(t *testing.T, kind store.Kind, jobs int, limit time.Duration) {
	c := cluster.Start(t, cluster.Options{Bucket: store.StartKind(t, kind).URL()})
	ctx := client.WithAck(c.Context(time.Duration(jobs/1000)*time.Second+patience), client.AckObject)
	for from := 0; from < jobs; from += 1000 {
		batch := make([]client.NewJob, 1000)
		for i := range batch {
			batch[i] = client.NewJob{ID: fmt.Sprintf("job-%d", from+i), Type: "t", Payload: []byte(`{"n":1}`)}
		}
		if _, err := c.Client.EnqueueBatch(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	c.KillAll()
	began := time.Now()
	for _, n := range c.Nodes {
		n.Wipe()
		n.Start()
	}
	c.Eventually(longPatience, "a write", func() error { // a call ends after 20 s
		_, err := c.Client.Enqueue(c.Context(longPatience), client.NewJob{ID: "after", Type: "t"})
		return err
	})
	within(t, fmt.Sprintf("all disks are lost, %s, %d jobs: until a write", kind, jobs), time.Since(began), limit)
	mustHave(t, c, []string{"job-0", fmt.Sprintf("job-%d", jobs-1), "after"})
}
