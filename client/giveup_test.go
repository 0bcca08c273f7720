package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

func TestNobodyThere(t *testing.T) {
	c := newCluster(t)
	for i := range c.nodes {
		c.kill(i)
	}
	cl := c.client(func(cfg *Config) { cfg.RetryFor = 2 * time.Second }) // for each node once, at least
	_, err := cl.Enqueue(bounded(t), NewJob{})
	e := failed(t, err)
	if !e.Unreachable() || e.Committed != CommittedNo || e.Status != 0 || len(e.Tried) != 3 {
		t.Fatalf("%+v", e)
	}
	for _, u := range c.urls() {
		if !strings.Contains(err.Error(), u) {
			t.Errorf("%v does not name %s", err, u)
		}
	}
	if !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v does not say why", err)
	}
}

func TestWhatIsKnownWhenPatienceEnds(t *testing.T) {
	t.Parallel()
	no := refusing(503, v1.TagNoLeader, v1.CommittedNo, 0)
	foreign := func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "the load balancer is sorry")
	}
	cases := []struct {
		name   string
		faults []fault // the last one again and again
		want   Committed
		status int
	}{
		{"refused", []fault{no}, CommittedNo, 503},
		{"unknown", []fault{refusing(503, v1.TagUnknownOutcome, v1.CommittedUnknown, 0)}, CommittedUnknown, 503},
		{"cut", []fault{cutBefore}, CommittedUnknown, 0},
		{"garbage", []fault{garbage}, CommittedUnknown, 200},
		{"somebody between", []fault{foreign}, CommittedUnknown, 503},
		{"cut once, then refused", []fault{cutAfter, no}, CommittedUnknown, 503},
		{"cut once, then a final answer", []fault{cutAfter, refusing(409, v1.TagIDTaken, v1.CommittedNo, 0)}, CommittedUnknown, 409},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			n := 0
			c.setFault(func(_ *node, r *http.Request) fault {
				if r.URL.Path == v1.PathStatus {
					return nil
				}
				n++
				return tc.faults[min(n, len(tc.faults))-1]
			})
			cl := c.client(func(cfg *Config) { cfg.RetryFor = time.Second })
			_, err := cl.Enqueue(bounded(t), NewJob{})
			e := failed(t, err)
			if e.Committed != tc.want || e.Status != tc.status {
				t.Errorf("committed %q status %d: %v", e.Committed, e.Status, err)
			}
			if says := strings.Contains(err.Error(), "not known"); says != (tc.want == CommittedUnknown) {
				t.Errorf("%v", err)
			}
			_, err = cl.Stats(bounded(t))
			if e := failed(t, err); e.Committed != CommittedNo {
				t.Errorf("a read that is %q committed", e.Committed)
			}
		})
	}
}

func TestRefusalsAreFinal(t *testing.T) {
	for _, status := range []int{400, 404, 409, 413, 415, 501} {
		c, cl := newPair(t)
		c.faultFor(v1.PathJobs, -1, refusing(status, v1.TagBadRequest, v1.CommittedNo, 0))
		_, err := cl.Enqueue(bounded(t), NewJob{})
		e := failed(t, err)
		if e.Status != status || e.Tag != v1.TagBadRequest || e.Committed != CommittedNo || !strings.Contains(err.Error(), "detail of") {
			t.Errorf("%+v", e)
		}
		if e.Refused() != (status < 500) {
			t.Errorf("%d refused: %v", status, e.Refused())
		}
		if n := len(c.requests()); n != 1 {
			t.Errorf("%d: sent %d times", status, n)
		}
	}
}

// A refusal that does not come from a node is not final, and proves nothing: a proxy may answer so while its nodes
// are down, and may replace the answer of a node.
func TestOthersRefuseNothing(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 413, 421, 451, 501} {
		c := newCluster(t)
		cl := c.client(func(cfg *Config) { cfg.RetryFor = 100 * time.Millisecond })
		c.faultFor(v1.PathJobs, -1, func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
			w.WriteHeader(status)
			io.WriteString(w, "nothing here")
		})
		_, err := cl.Enqueue(bounded(t), NewJob{})
		if e := failed(t, err); e.Status != status || e.Refused() || e.Committed != CommittedUnknown || len(c.requests()) < 2 {
			t.Errorf("%d: refused %v, committed %q: %v", status, e.Refused(), e.Committed, err)
		}
	}
}

func TestNoRetriesOnDemand(t *testing.T) {
	c := newCluster(t)
	cl := c.client(func(cfg *Config) { cfg.RetryFor = -1 })
	c.faultFor(v1.PathJobs, -1, refusing(503, v1.TagOverloaded, v1.CommittedNo, 7000))
	_, err := cl.Enqueue(bounded(t), NewJob{})
	if e := failed(t, err); e.RetryAfter != 7*time.Second || len(c.requests()) != 1 {
		t.Errorf("%+v, sent %d times", e, len(c.requests()))
	}
}

func TestContextEndsTheCall(t *testing.T) {
	c, cl := newPair(t)
	sent := make(chan struct{}, 2)
	c.faultFor(v1.PathJobs, -1, func(n *node, w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter)) {
		sent <- struct{}{}
		frozen(n, w, r, next)
	})
	ctx, cancel := context.WithTimeout(bounded(t), time.Second)
	defer cancel()
	began := time.Now()
	_, err := cl.Enqueue(ctx, NewJob{})
	if e := failed(t, err); !errors.Is(err, context.DeadlineExceeded) || e.Committed != CommittedUnknown {
		t.Errorf("%v", err)
	}
	canceled, stop := context.WithCancel(bounded(t))
	select {
	case <-sent:
	default:
		t.Error("the first call was not sent")
	}
	go func() {
		<-sent
		stop()
	}()
	_, err = cl.Enqueue(canceled, NewJob{})
	if e := failed(t, err); !errors.Is(err, context.Canceled) || e.Committed != CommittedUnknown {
		t.Errorf("%v", err)
	}
	_, err = cl.Enqueue(canceled, NewJob{})
	if e := failed(t, err); !errors.Is(err, context.Canceled) || e.Committed != CommittedNo || e.Invalid() {
		t.Errorf("never sent: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// A pause that would outlast the context is not begun.
func TestNoPauseBeyondTheContext(t *testing.T) {
	c, cl := newPair(t)
	c.faultFor(v1.PathJobs, -1, refusing(503, v1.TagOverloaded, v1.CommittedNo, 3000))
	ctx, cancel := context.WithTimeout(bounded(t), 2*time.Second)
	defer cancel()
	began := time.Now()
	_, err := cl.Enqueue(ctx, NewJob{})
	if e := failed(t, err); e.Status != 503 || time.Since(began) > time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestCloseEndsCalls(t *testing.T) {
	c, cl := newPair(t)
	entered := make(chan struct{}, 1)
	c.faultFor(v1.PathJobs, -1, func(n *node, w http.ResponseWriter, r *http.Request, a func(http.ResponseWriter)) {
		entered <- struct{}{}
		frozen(n, w, r, a)
	})
	ended := make(chan error, 1)
	go func() {
		_, err := cl.Enqueue(bounded(t), NewJob{})
		ended <- err
	}()
	<-entered
	cl.Close()
	cl.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := cl.Enqueue(bounded(t), NewJob{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after: %v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	c := newCluster(t)
	cl := c.client(func(cfg *Config) { cfg.MaxAnswerBytes = 1000 })
	c.answers[v1.PathState] = `"` + strings.Repeat("x", 2000) + `"`
	_, err := cl.State(bounded(t))
	if !errors.Is(err, errLarge) || len(c.requests()) != 1 || !strings.Contains(fmt.Sprint(err), "MaxAnswerBytes (1000)") {
		t.Errorf("%v, sent %d times", err, len(c.requests()))
	}
}

// The jobs of a claim are leased: an answer that was not read would cost each of
// them an attempt.
func TestAnswersToClaimsAreReadWhole(t *testing.T) {
	c := newCluster(t)
	cl := c.client(func(cfg *Config) { cfg.MaxAnswerBytes = 1000 })
	c.script("POST "+v1.PathClaim, `{"jobs":[{"jobId":"j","token":7,"payload":"`+strings.Repeat("x", 2000)+`"}]}`)
	jobs, err := cl.Claim(bounded(t), ClaimOptions{Worker: "w"})
	if err != nil || len(jobs) != 1 || jobs[0].Token != 7 {
		t.Errorf("%v, %v", jobs, err)
	}
}

func TestWhatIsWrongBeforeSending(t *testing.T) {
	c, cl := newPair(t)
	ctx := bounded(t)
	calls := map[string]func() error{
		"payload":   func() error { _, err := cl.Enqueue(ctx, NewJob{Payload: json.RawMessage("{")}); return err },
		"two times": func() error { _, err := cl.Enqueue(ctx, NewJob{RunAt: time.Now(), Delay: 1}); return err },
		"jobs":      func() error { _, err := cl.EnqueueBatch(ctx, make([]NewJob, MaxBatchJobs+1)); return err },
		"bytes": func() error {
			_, err := cl.EnqueueBatch(ctx, []NewJob{{Payload: json.RawMessage(`"` + strings.Repeat("x", MaxBatchBytes) + `"`)}})
			return err
		},
		"no id":      func() error { _, err := cl.Job(ctx, ""); return err },
		"dots":       func() error { return cl.Release(ctx, Lease{JobID: ".."}) },
		"result":     func() error { return cl.Complete(ctx, Lease{JobID: "j"}, json.RawMessage("]")) },
		"no worker":  func() error { return cl.RemoveWorker(ctx, "") },
		"bad server": func() error { return cl.Ready(ctx, "ftp://x") },
	}
	for name, call := range calls {
		if e := failed(t, call()); e.Committed != CommittedNo || e.Status != 0 || e.Unreachable() || !e.Invalid() {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if n := len(c.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// TestReadsFailAtOnceWhenNobodyListens: a read does not wait for a cluster that does not run; what waits for something
// outlasts a restart.
func TestReadsFailAtOnceWhenNobodyListens(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for i := range c.nodes {
		c.kill(i)
	}
	cl := c.client(func(cfg *Config) { cfg.RetryFor = 20 * time.Second })
	began := time.Now()
	_, err := cl.Stats(bounded(t))
	if e := failed(t, err); !e.Unreachable() || len(e.Tried) != 3 {
		t.Errorf("%+v", e)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	ctx, cancel := context.WithTimeout(bounded(t), 4*time.Second)
	defer cancel()
	began = time.Now()
	if _, err := cl.WaitJob(ctx, "j", 0); err == nil || time.Since(began) < 2*time.Second {
		t.Errorf("a wait ended after %v: %v", time.Since(began), err)
	}
}

// Nothing is sent for a call that comes after Close, however soon the answer would be
// there.
func TestAClosedClientSendsNothing(t *testing.T) {
	c, cl := newPair(t)
	cl.Close()
	for range 200 {
		if _, err := cl.Enqueue(bounded(t), NewJob{}); !errors.Is(err, ErrClosed) {
			t.Fatalf("got %v", err)
		}
		for _, err := range cl.Events(bounded(t), EventOptions{}) {
			if !errors.Is(err, ErrClosed) {
				t.Fatalf("got %v", err)
			}
		}
	}
	if n := c.requests(); len(n) != 0 {
		t.Errorf("%d requests were sent: %v", len(n), n[0])
	}
}

// A write that is answered with success, but with a wrong number of results, may
// have taken place.
func TestAnswersOfTheWrongLength(t *testing.T) {
	c, cl := newPair(t)
	ctx := bounded(t)
	c.answers[v1.PathJobsBatch] = `{"jobIds":["a"],"lsn":"1-1"}`
	for _, action := range []string{"cancel", "retry", "delete"} {
		c.script("POST /v1/jobs/"+action, `{"count":1,"nextCursor":"x","lsn":"1-1","results":[{"jobId":"a","status":"ok"}]}`)
	}
	jobs, ids := []NewJob{{ID: "a"}, {ID: "b"}}, []string{"a", "b"}
	watch := &Watch{c: cl, jobs: map[string]*watched{}}
	for name, call := range map[string]func() error{
		"enqueue batch":     func() error { _, err := cl.EnqueueBatch(ctx, jobs); return err },
		"watch's enqueue":   func() error { _, err := watch.Enqueue(ctx, jobs); return err },
		"cancel many":       func() error { _, err := cl.CancelMany(ctx, ids); return err },
		"retry many":        func() error { _, err := cl.RetryMany(ctx, ids); return err },
		"delete many":       func() error { _, err := cl.DeleteMany(ctx, ids); return err },
		"the cursor stands": func() error { _, err := cl.DeleteWhere(ctx, Filter{All: true}); return err },
	} {
		var e *Error
		if err := call(); !errors.As(err, &e) || e.Committed != CommittedUnknown || e.Invalid() || e.Refused() {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if len(watch.jobs) != 0 {
		t.Errorf("%d jobs are watched that nobody knows of", len(watch.jobs))
	}
}
