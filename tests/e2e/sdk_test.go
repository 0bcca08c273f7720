package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// start starts a cluster for a test, and a client of it.
func start(t *testing.T, nodes int) (*liveCluster, *client.Client) {
	t.Helper()
	cluster, err := startLive(nodes)
	check(t, err)
	c, err := cluster.Client()
	check(t, err)
	t.Cleanup(func() {
		c.Close()
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster, c
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Calls of every kind go on while the leader is killed; each write takes effect
// once.
func TestLeaderIsKilled(t *testing.T) {
	cluster, c := start(t, 3)
	ctx := bounded(t)
	const jobs = 60
	errs := make(chan error, jobs)
	for i := range jobs {
		go func() {
			id := fmt.Sprintf("j%d", i)
			_, err := c.Enqueue(ctx, client.NewJob{ID: id, Type: "t", Delay: time.Hour})
			if err == nil && i%2 == 0 {
				var done client.Change
				if done, err = c.Cancel(ctx, id); err == nil && done.Duplicate {
					err = fmt.Errorf("%s was cancelled twice", id)
				}
			}
			errs <- err
		}()
		if i == jobs/2 {
			check(t, cluster.KillLeader())
		}
	}
	for range jobs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	q, err := c.Queue(ctx, "t")
	if err != nil || q.Cancelled != jobs/2 || q.Scheduled != jobs/2 {
		t.Errorf("%+v, %v", q, err)
	}
	n, err := c.DeleteWhere(ctx, client.Filter{Statuses: []string{v1.StatusCancelled}})
	if err != nil || n != jobs/2 {
		t.Errorf("deleted %d, %v", n, err)
	}
}

// Waiting for a job, and following the events, survives the death of the leader.
func TestWaitingAndFollowingOverAFailover(t *testing.T) {
	cluster, c := start(t, 3)
	ctx := bounded(t)
	if _, err := c.Enqueue(ctx, client.NewJob{ID: "j0", Type: "t"}); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		job, err := c.WaitJob(ctx, "j0", 0)
		if err == nil && job.Status != v1.StatusCompleted {
			err = fmt.Errorf("it is %s", job.Status)
		}
		waited <- err
	}()
	const jobs = 40
	followed := make(chan error, 1)
	go func() { followed <- followJobs(ctx, c, jobs) }()
	for i := 1; i < jobs; i++ {
		if _, err := c.Enqueue(ctx, client.NewJob{ID: fmt.Sprintf("j%d", i), Type: "t"}); err != nil {
			t.Fatal(err)
		}
		if i == jobs/2 {
			check(t, cluster.KillLeader())
		}
	}
	claimed, err := c.Claim(ctx, client.ClaimOptions{Worker: "w", Wait: time.Second})
	if err != nil || len(claimed) != 1 || claimed[0].ID != "j0" {
		t.Fatalf("%+v, %v", claimed, err)
	}
	// Without a token the answer is empty, and a key makes it repeatable.
	if err := c.Complete(ctx, client.Lease{JobID: "j0", Worker: "w"}, nil); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("waiting: %v", err)
	}
	if err := <-followed; err != nil {
		t.Errorf("following: %v", err)
	}
}

// followJobs wants the events of n jobs, each once and in order.
func followJobs(ctx context.Context, c *client.Client, n int) error {
	next := 0
	for ev, err := range c.Events(ctx, client.EventOptions{Kinds: []string{v1.EventEnqueued}, After: "0-0.0"}) {
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("j%d", next); ev.JobID != want {
			return fmt.Errorf("%s of %q came where that of %s was due", ev.Kind, ev.JobID, want)
		}
		if next++; next == n {
			return nil
		}
	}
	return errors.New("the stream ended")
}

// A list that is too long for one request is sent in several.
func TestMoreThanOneCallHolds(t *testing.T) {
	_, c := start(t, 1)
	ctx := bounded(t)
	const jobs = 2300
	var ids []string
	for from := 0; from < jobs; from += client.MaxBatchJobs {
		part := make([]client.NewJob, min(client.MaxBatchJobs, jobs-from))
		for i := range part {
			part[i] = client.NewJob{ID: fmt.Sprintf("j%d", from+i), Type: "t", Tags: []string{"x"}}
		}
		out, err := c.EnqueueBatch(ctx, part)
		check(t, err)
		ids = append(ids, out.JobIDs...)
	}
	if n, err := c.CancelWhere(ctx, client.Filter{Tag: "x", Limit: 1200}); err != nil || n != 1200 {
		t.Errorf("cancelled %d, %v", n, err)
	}
	if n, err := c.CancelWhere(ctx, client.Filter{Tag: "x"}); err != nil || n != jobs-1200 {
		t.Errorf("cancelled %d, %v", n, err)
	}
	key := client.WithIdempotencyKey(ctx, "again")
	for range 2 { // the second time all is answered from memory
		changes, err := c.RetryMany(key, ids)
		if err != nil || len(changes) != jobs {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		for i, change := range changes {
			if change.JobID != ids[i] || change.Tag != "" || change.Duplicate {
				t.Fatalf("%+v", change)
			}
		}
	}
	seen := 0
	for _, err := range c.Jobs(ctx, client.ListOptions{Tag: "x"}) {
		check(t, err)
		seen++
	}
	if n, err := c.DeleteWhere(ctx, client.Filter{All: true}); err != nil || n != jobs || seen != jobs {
		t.Errorf("deleted %d of %d seen, %v", n, seen, err)
	}
}

// Every report comes in a form for many.
func TestReportsOfMany(t *testing.T) {
	_, c := start(t, 1)
	ctx := bounded(t)
	if _, err := c.EnqueueBatch(ctx, []client.NewJob{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}); err != nil {
		t.Fatal(err)
	}
	jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: "w", Max: 4})
	if err != nil || len(jobs) != 4 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	lease := func(i int) client.Lease { return jobs[i].Lease() }
	stale := lease(0)
	stale.Token++
	beats := map[string]func() ([]client.Beat, error){
		"release": func() ([]client.Beat, error) { return c.ReleaseBatch(ctx, "w", []client.Lease{lease(0), stale}) },
		"complete": func() ([]client.Beat, error) {
			return c.CompleteBatch(ctx, "w", []client.Completion{{Lease: lease(1), Log: "said"}, {Lease: stale}})
		},
		"fail": func() ([]client.Beat, error) {
			return c.FailBatch(ctx, "w", []client.FailedJob{{Lease: lease(2), Failure: client.Failure{Permanent: true}}, {Lease: stale}})
		},
		"heartbeat": func() ([]client.Beat, error) {
			moved := lease(3)
			moved.Progress = &client.Progress{Percent: 30, Message: "x"}
			return c.Heartbeat(ctx, "w", []client.Lease{moved, stale})
		},
	}
	for name, report := range beats {
		got, err := report()
		if err != nil || len(got) != 2 || got[0].Tag != "" || !client.LostLease(got[1].Tag) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for id, want := range map[string]string{"a": v1.StatusUnclaimed, "b": v1.StatusCompleted, "c": v1.StatusDead, "d": v1.StatusInProgress} {
		if job, err := c.Job(ctx, id); err != nil || job.Status != want {
			t.Errorf("%s: %+v, %v", id, job, err)
		}
	}
	if job, err := c.Job(ctx, "b"); err != nil || job.Log != "said" {
		t.Errorf("%+v, %v", job, err)
	}
	if job, err := c.Job(ctx, "d"); err != nil || job.Progress == nil || job.Progress.Percent != 30 {
		t.Errorf("%+v, %v", job, err)
	}
}

// A write with AckObject reaches the bucket although the leader is killed, and the
// answers report the true level.
func TestObjectAcksOverAFailover(t *testing.T) {
	cluster, c := start(t, 3)
	ctx := client.WithAck(bounded(t), client.AckObject)
	const jobs = 30
	results := make(chan client.Enqueued, jobs)
	for i := range jobs {
		go func() {
			got, err := c.Enqueue(ctx, client.NewJob{ID: fmt.Sprintf("j%d", i), Type: "t"})
			if err != nil {
				t.Error(err)
			}
			results <- got
		}()
		if i == jobs/2 {
			check(t, cluster.KillLeader())
		}
	}
	for range jobs {
		got := <-results
		if got.Committed != client.AckObject {
			t.Errorf("%s is only %q", got.JobID, got.Committed)
			continue
		}
		if at, err := c.WaitLSN(ctx, got.LSN, client.AckObject); err != nil || at.FlushedLSN == "0-0" {
			t.Errorf("%s: %+v, %v", got.JobID, at, err)
		}
	}
}

// Jobs with unusual JSON of other programs can be handled: duplicate names and
// surrogate halves.
func TestJSONOfOthers(t *testing.T) {
	cluster, c := start(t, 1)
	ctx := bounded(t)
	const odd = `{"a":"\ud800","a":2}`
	post := func(path, body string) {
		t.Helper()
		resp, err := http.Post("http://"+cluster.Servers()[0]+path, "application/json", strings.NewReader(body))
		check(t, err)
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s: %s %s, %v", path, resp.Status, text, err)
		}
	}
	for _, id := range []string{"one", "two"} {
		post("/v1/jobs", `{"id":"`+id+`","type":"t","payload":`+odd+`}`)
	}
	jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: "w", Types: []string{"t"}, Max: 2})
	if err != nil || len(jobs) != 2 || string(jobs[0].Payload) != odd {
		t.Fatalf("%+v, %v", jobs, err)
	}
	post("/v1/jobs/one/complete", fmt.Sprintf(`{"workerId":"w","token":%d,"result":%s}`, jobs[0].Token, odd))
	if job, err := c.WaitJob(ctx, "one", 0); err != nil || string(job.Payload) != odd || string(job.Result) != odd {
		t.Errorf("%s, %s, %v", job.Payload, job.Result, err)
	}
	n := 0
	for job, err := range c.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}}) {
		if n++; err != nil || string(job.Payload) != odd {
			t.Errorf("%s, %v", job.Payload, err)
		}
	}
	if n != 2 {
		t.Errorf("%d jobs are listed", n)
	}
}
