package dashboard

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// TestMillion measures each page of a queue with OSQUEUE_MILLION jobs, by the time that the
// server says. make soak runs it with a million: it takes minutes and 1.5 GB.
func TestMillion(t *testing.T) {
	jobs, err := strconv.Atoi(os.Getenv("OSQUEUE_MILLION"))
	if err != nil {
		t.Skip("OSQUEUE_MILLION is not set; make soak sets it")
	}
	const limit = 100.0 // ms
	c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: []string{"--max-jobs", "0", "--max-bytes", "0"}})
	node := c.WaitLeader()
	fill(t, c, jobs)
	root := "http://" + node.HTTP + "/ui"
	for _, path := range []string{
		"", "/jobs", "/jobs?status=unclaimed&type=type-3", "/jobs?status=dead", "/jobs?search=nowhere", "/jobs?tag=rare", "/jobs?time=ended-1h",
		"/jobs?sort=created", "/jobs/job-17", "/bulk?action=cancel&status=unclaimed&type=type-3", "/dead", "/queues", "/queues/type-3",
		"/queues/type-3/purge", "/schedules", "/workers", "/batches", "/limits", "/events", "/cluster",
	} {
		var took []float64
		for range 5 {
			took = append(took, serverTime(t, root+path))
		}
		slices.Sort(took)
		t.Logf("%-60s %6.1f ms (median of 5)", path, took[2])
		if took[2] > limit {
			t.Errorf("%s takes %.1f ms with %d jobs, at most %v are allowed", path, took[2], jobs, limit)
		}
	}
}

// fill enqueues jobs of 200 types, more than the overview shows.
func fill(t *testing.T, c *cluster.Cluster, jobs int) {
	t.Helper()
	for from := 0; from < jobs; {
		var batch []client.NewJob
		for ; len(batch) < 1000 && from < jobs; from++ {
			j := client.NewJob{ID: fmt.Sprintf("job-%d", from), Type: fmt.Sprintf("type-%d", from%200), Payload: []byte(`{"n":1}`)}
			if from%100_000 == 0 {
				j.Tags = []string{"rare"}
			}
			batch = append(batch, j)
		}
		if _, err := c.Client.EnqueueBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

// serverTime returns the time that the server took for a page, in ms.
func serverTime(t *testing.T, url string) float64 {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := strings.CutPrefix(res.Header.Get("Server-Timing"), "page;dur=")
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, Server-Timing %q", url, res.StatusCode, text)
	}
	return ms
}
