package clients

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"

	v1 "osqueue/client/api/v1"
)

// failoverJobs is how many jobs are submitted, a third of them before the kill.
const failoverJobs = 300

// The leader is killed while one program submits jobs, one by one, and another runs them. Both
// continue: each job exists once, was run once, and has its result.
func TestLeaderKilled(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := cluster.Start(t, cluster.Options{})
		w := l.workerOf(t, c, "w")
		producer := start(t, "producer", l.desk(t), []string{servers(c), "N=" + strconv.Itoa(failoverJobs)}, l.interpreter, "producer"+l.extension)
		submitted := func() int { return strings.Count(producer.out.String(), "\n") }
		old := c.WaitLeader()
		eventually(t, "a third of the jobs", func() error {
			if n := submitted(); n < failoverJobs/3 {
				return fmt.Errorf("%d jobs", n)
			}
			return nil
		})
		old.Kill()
		if n := submitted(); n > failoverJobs*9/10 {
			t.Fatalf("%d of %d jobs were submitted before the kill: it did not hit the submission", n, failoverJobs)
		}
		c.WaitOtherLeader(old)
		producer.ended(time.Minute)
		ids := strings.Fields(producer.out.String())
		if len(ids) != failoverJobs || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != failoverJobs {
			t.Fatalf("%d ids, want %d different ones:\n%s", len(ids), failoverJobs, producer.out.String())
		}
		for i, id := range ids {
			job := ending(t, c, id)
			if got, want := strings.ReplaceAll(string(job.Result), " ", ""), fmt.Sprintf(`{"n":%d,"square":%d}`, i, i*i); got != want {
				t.Errorf("job %d is %s with %s, want %s", i, job.Status, got, want)
			}
		}
		checkOnce(t, c, w)
	})
}

// checkOnce checks that there are as many jobs as were submitted, and that the
// worker has begun each once.
func checkOnce(t *testing.T, c *cluster.Cluster, w *worker) {
	t.Helper()
	jobs := 0
	for job, err := range c.Client.Jobs(c.Context(30*time.Second), client.ListOptions{Statuses: []string{v1.StatusAll}}) {
		if err != nil {
			t.Fatal(err)
		}
		if jobs++; job.Status != v1.StatusCompleted || job.Attempts != 1 {
			t.Errorf("job %s is %s after %d attempts", job.ID, job.Status, job.Attempts)
		}
	}
	times := map[string]int{}
	for _, b := range w.begun() {
		times[b.id]++
	}
	for id, n := range times {
		if n != 1 {
			t.Errorf("job %s was begun %d times", id, n)
		}
	}
	if jobs != failoverJobs || len(times) != failoverJobs {
		t.Errorf("%d jobs are there and %d were begun, want %d", jobs, len(times), failoverJobs)
	}
}

// All nodes are restarted in turn while one program submits jobs and another runs them: no call fails.
func TestRollingRestart(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := cluster.Start(t, cluster.Options{})
		w := l.workerOf(t, c, "w")
		producer := start(t, "producer", l.desk(t), []string{servers(c), "N=" + strconv.Itoa(failoverJobs)}, l.interpreter, "producer"+l.extension)
		for i, n := range c.Nodes {
			eventually(t, "more jobs", func() error {
				if got := strings.Count(producer.out.String(), "\n"); got < (i+1)*failoverJobs/8 {
					return fmt.Errorf("%d jobs", got)
				}
				return nil
			})
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			n.Start()
			eventually(t, n.Name+" to be ready", func() error { return c.Client.Ready(c.Context(time.Second), n.HTTP) })
		}
		producer.ended(time.Minute)
		for _, id := range strings.Fields(producer.out.String()) {
			ending(t, c, id)
		}
		checkOnce(t, c, w)
	})
}
