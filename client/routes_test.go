package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	v1 "osqueue/client/api/v1"
)

func TestEnqueueMakesIDsAndKeepsPayloads(t *testing.T) {
	c, cl := newPair(t)
	payload := json.RawMessage("{\"b\" : [1.0, 1e3],\n \"a\": \"\\u0041\"}")
	got, err := cl.Enqueue(bounded(t), NewJob{Type: "t", Payload: payload, Priority: 3})
	check(t, err)
	if id, err := uuid.Parse(got.JobID); err != nil || id.Version() != 7 {
		t.Errorf("id %s", got.JobID)
	}
	if got.LSN == "" || c.bodies[got.JobID] != string(payload) {
		t.Errorf("%+v, %s", got, c.bodies[got.JobID])
	}
}

func TestEncodeJob(t *testing.T) {
	three := int32(3)
	cases := []struct {
		job  NewJob
		want string
	}{
		{NewJob{ID: "j"}, `{"id":"j"}`},
		{NewJob{ID: "j", Payload: json.RawMessage("null")}, `{"id":"j","payload":null}`},
		{
			NewJob{
				ID: "j", Type: "t", Priority: -1, Delay: time.Microsecond, MaxAttempts: &three, Lease: time.Second,
				Payload: json.RawMessage(`[ ]`),
			},
			`{"id":"j","type":"t","payload":[ ],"priority":-1,"delayMs":1,"maxAttempts":3,"leaseMs":1000}`,
		},
		{NewJob{ID: "j", RunAt: time.UnixMilli(1234567)}, `{"id":"j","runAt":1234567}`},
	}
	for _, c := range cases {
		got, err := EncodeJob(c.job)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v; want %s", got, err, c.want)
		}
	}
	in, err := wireBatch([]NewJob{cases[0].job, cases[1].job})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := in.AppendJSON(nil)
	if want := `{"jobs":[` + cases[0].want + "," + cases[1].want + `]}`; err != nil || string(batch) != want {
		t.Errorf("%s, %v; want %s", batch, err, want)
	}
}

func TestBatches(t *testing.T) {
	c, cl := newPair(t)
	ctx := bounded(t)
	c.answers[v1.PathJobsBatch] = `{"jobIds":["a","b"],"lsn":"1-2","duplicates":["b"]}`
	batch, err := cl.EnqueueBatch(ctx, []NewJob{{ID: "a"}, {ID: "b"}})
	if err != nil || !slices.Equal(batch.JobIDs, []string{"a", "b"}) || !slices.Equal(batch.Duplicates, []string{"b"}) {
		t.Errorf("%+v, %v", batch, err)
	}
	c.answers[v1.PathHeartbeat] = `{"results":[{"jobId":"a","status":"ok"},{"jobId":"b","status":"stale_token"}],"lsn":"1-2"}`
	leases := []Lease{{JobID: "a", Token: 1}, {JobID: "b", Token: 2}}
	beats, err := cl.Heartbeat(ctx, "w", leases)
	if err != nil || !slices.Equal(beats, []Beat{{JobID: "a"}, {JobID: "b", Tag: "stale_token"}}) {
		t.Errorf("%+v, %v", beats, err)
	}
	c.answers[v1.PathComplete] = `{"results":[{"jobId":"a","status":"duplicate"}],"lsn":"1-2"}`
	beats, err = cl.CompleteBatch(ctx, "w", []Completion{{Lease: leases[0], Result: json.RawMessage("1")}})
	if err != nil || !slices.Equal(beats, []Beat{{JobID: "a"}}) {
		t.Errorf("%+v, %v", beats, err)
	}
	impatient := c.client(func(cfg *Config) { cfg.RetryFor = -1 })
	if _, err := impatient.CompleteBatch(ctx, "w", []Completion{{Lease: leases[0]}, {Lease: leases[1]}}); err == nil {
		t.Error("one answer was taken for two")
	}
	before := len(c.requests())
	for name, call := range map[string]func() error{
		"jobs":   func() error { _, err := cl.EnqueueBatch(ctx, nil); return err },
		"leases": func() error { _, err := cl.Heartbeat(ctx, "w", nil); return err },
		"ends":   func() error { _, err := cl.CompleteBatch(ctx, "w", nil); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("no %s: %v", name, err)
		}
	}
	if len(c.requests()) != before {
		t.Error("empty batches were sent")
	}
}

func TestReports(t *testing.T) {
	c, cl := newPair(t)
	ctx := bounded(t)
	lease := Lease{JobID: "a b/ä", Worker: "w", Token: 7}
	if err := cl.Fail(ctx, lease, Failure{Error: "x", Permanent: true, Delay: time.Second}); err != nil {
		t.Error(err)
	}
	if got := c.requests(); !strings.HasSuffix(got[0], "POST /v1/jobs/a%20b%2F%C3%A4/fail") {
		t.Error(got)
	}
	err := cl.Complete(ctx, lease, nil)
	if !IsLeaseLost(err) || IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestNodes(t *testing.T) {
	c := newCluster(t)
	c.elect(1)
	c.kill(2)
	cl := c.client(nil)
	nodes := cl.StatusAll(bounded(t))
	if len(nodes) != 3 || nodes[0].Status.State != v1.StateFollower || nodes[1].Status.State != v1.StateLeader || nodes[2].Err == nil {
		t.Errorf("%+v", nodes)
	}
	if err := cl.Ready(bounded(t), nodes[0].Server); err != nil {
		t.Error(err)
	}
	if err := cl.Ready(bounded(t), strings.TrimPrefix(nodes[2].Server, "http://")); err == nil {
		t.Error("a dead node is ready")
	}
	c.faultFor(v1.PathReadyz, -1, refusing(503, v1.TagNoLeader, "", 0))
	if e := failed(t, cl.Ready(bounded(t), nodes[0].Server)); e.Status != 503 {
		t.Errorf("%+v", e)
	}
}

func TestJobsFollowsTheCursor(t *testing.T) {
	c, cl := newPair(t)
	c.answers["/v1/jobs?limit=2&status=all&type=t"] = `{"jobs":[{"id":"1"},{"id":"2"}],"nextCursor":"x y"}`
	c.answers["/v1/jobs?cursor=x+y&limit=2&status=all&type=t"] = `{"jobs":[],"nextCursor":"z"}`
	c.answers["/v1/jobs?cursor=z&limit=2&status=all&type=t"] = `{"jobs":[{"id":"3"}]}`
	options := ListOptions{Statuses: []string{v1.StatusAll}, Type: "t", PageSize: 2}
	list := func(o ListOptions) (ids string) {
		for j, err := range cl.Jobs(bounded(t), o) {
			check(t, err)
			ids += j.ID
		}
		return ids
	}
	if got := list(options); got != "123" {
		t.Errorf("got %s", got)
	}
	options.Limit = 2
	if got := list(options); got != "12" {
		t.Errorf("got %s", got)
	}
	for range cl.Jobs(bounded(t), options) {
		break
	}
	c.faultFor(v1.PathJobs, -1, refusing(400, v1.TagBadRequest, "", 0))
	errs := 0
	for _, err := range cl.Jobs(bounded(t), options) {
		if err != nil {
			errs++
		}
	}
	if errs != 1 {
		t.Errorf("%d errors", errs)
	}
}

func TestWaitJob(t *testing.T) {
	c, cl := newPair(t)
	c.answers["/v1/jobs/j"] = `{"id":"j","status":"in_progress"}`
	time.AfterFunc(150*time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answers["/v1/jobs/j"] = `{"id":"j","status":"completed","result":5,"future":1}`
	})
	job, err := cl.WaitJob(bounded(t), "j", 10*time.Second)
	if err != nil || string(job.Result) != "5" {
		t.Fatalf("%+v, %v", job, err)
	}
	c.answers["/v1/jobs/k"] = `{"id":"k","status":"unclaimed"}`
	job, err = cl.WaitJob(bounded(t), "k", 100*time.Millisecond)
	if !errors.Is(err, ErrNotFinished) || job.Status != v1.StatusUnclaimed {
		t.Fatalf("%+v, %v", job, err)
	}
}

// The server holds the request until the job ends; when its node freezes and
// another one leads, the request is made again there.
func TestWaitJobOverAFailover(t *testing.T) {
	c, cl := newPair(t)
	c.answers["/v1/jobs/j"] = `{"id":"j","status":"completed"}`
	ended := make(chan struct{})
	c.setFault(func(n *node, r *http.Request) fault {
		switch {
		case r.URL.Path == v1.PathStatus:
			return nil
		case n.i == 0:
			time.AfterFunc(50*time.Millisecond, func() { c.elect(1) })
			return frozen
		}
		time.AfterFunc(100*time.Millisecond, func() { close(ended) })
		return func(_ *node, w http.ResponseWriter, _ *http.Request, answer func(http.ResponseWriter)) {
			<-ended
			answer(w)
		}
	})
	go func() { // another goroutine's call finds the new leader
		for t.Context().Err() == nil {
			cl.tracker.discover(t.Context())
			if l, _ := cl.tracker.known(); l != nil && l.term > 1 {
				return
			}
		}
	}()
	job, err := cl.WaitJob(bounded(t), "j", 0)
	if err != nil || job.Status != v1.StatusCompleted {
		t.Fatalf("%+v, %v", job, err)
	}
	if got := c.requests(); len(got) != 2 || !strings.HasSuffix(got[1], "1 GET /v1/jobs/j?waitMs=15000") {
		t.Errorf("%q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if wait := pollFor(ctx); wait > 3*time.Second || wait < 2*time.Second {
		t.Errorf("polls for %v of 3 s", wait)
	}
}

func TestFreshness(t *testing.T) {
	c := newCluster(t)
	c.elect(1)
	c.answers[v1.PathStats] = `{}`
	own := c.client(func(cfg *Config) { cfg.Reads = ReadOwnWrites })
	ctx := bounded(t)
	last := func() string {
		got := c.requests()
		_, request, _ := strings.Cut(got[len(got)-1], " ")
		return request
	}
	if _, err := own.Stats(ctx); err != nil || last() != "GET /v1/stats?consistency=local" {
		t.Errorf("%s, %v", last(), err)
	}
	if _, err := own.Enqueue(ctx, NewJob{}); err != nil {
		t.Fatal(err)
	}
	servers := map[byte]bool{}
	for range 6 {
		if _, err := own.Stats(ctx); err != nil || last() != "GET /v1/stats?minLsn=2-1" {
			t.Errorf("%s, %v", last(), err)
		}
		got := c.requests()
		servers[got[len(got)-1][0]] = true
	}
	if len(servers) != 3 {
		t.Errorf("%d servers were asked", len(servers))
	}
	anyone := c.client(func(cfg *Config) { cfg.Reads = ReadAny })
	if _, err := anyone.Stats(ctx); err != nil || last() != "GET /v1/stats?consistency=local" {
		t.Errorf("%s, %v", last(), err)
	}
	c.kill(0)
	for range 4 {
		if _, err := own.Stats(ctx); err != nil {
			t.Errorf("with a dead node: %v", err)
		}
	}
}

// Many goroutines share connections instead of opening one for each call.
func TestConnectionsAreReused(t *testing.T) {
	c, cl := newPair(t)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			for range 25 {
				if _, err := cl.Enqueue(bounded(t), NewJob{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[0].total; n > 120 {
		t.Errorf("%d connections for 1000 calls of 40 goroutines", n)
	}
	if n := c.nodes[0].total + c.nodes[1].total + c.nodes[2].total; n < 3 {
		t.Errorf("%d connections were counted", n)
	}
}

func TestOwnTransport(t *testing.T) {
	c := newCluster(t)
	calls := 0
	var mu sync.Mutex
	cl := c.client(func(cfg *Config) {
		cfg.Transport = roundTrips(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			calls++
			mu.Unlock()
			return http.DefaultTransport.RoundTrip(r)
		})
	})
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	_, err := cl.Enqueue(bounded(t), NewJob{})
	mu.Lock() // a look for the leader may still be under way
	defer mu.Unlock()
	if err != nil || calls < 2 {
		t.Errorf("%v, %d calls", err, calls)
	}
}

type roundTrips func(*http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWaitJobThatDidNotComplete: a job that is dead or cancelled is an error, with the job in it.
func TestWaitJobThatDidNotComplete(t *testing.T) {
	c, cl := newPair(t)
	c.answers["/v1/jobs/d"] = `{"id":"d","status":"dead","lastError":"no such address"}`
	c.answers["/v1/jobs/c"] = `{"id":"c","status":"cancelled"}`
	for id, want := range map[string]string{"d": "job d is dead: no such address", "c": "job c is cancelled"} {
		job, err := cl.WaitJob(bounded(t), id, 10*time.Second)
		var ended *JobError
		if !errors.As(err, &ended) || ended.Job.ID != id || job.ID != id || err.Error() != want {
			t.Errorf("%+v, %v", job, err)
		}
	}
}
