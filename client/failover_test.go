package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// failed returns err as what every failed call returns.
func failed(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	return e
}

func TestCallsGoToTheLeader(t *testing.T) {
	c := newCluster(t)
	c.elect(2)
	cl := c.client(nil)
	for range 5 {
		added(t, cl, NewJob{Type: "a"})
	}
	for _, r := range c.requests() {
		if r != "2 POST /v1/jobs" {
			t.Errorf("%s", r)
		}
	}
	if got := c.header("Prefer"); got != "handling=strict, wait=1" { // a little less than the client's own 2 s
		t.Errorf("Prefer: %s", got)
	}
}

// The leader dies in the middle; the next one is elected a little later. No
// caller notices, and no job is there twice.
func TestFailoverInTheMiddle(t *testing.T) {
	c := newCluster(t)
	c.elect(0)
	cl := c.client(nil)
	const callers, each = 8, 40
	var wg sync.WaitGroup
	var once sync.Once
	errs := make(chan error, callers*each)
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				if i == each/2 {
					once.Do(func() {
						c.kill(0)
						time.AfterFunc(200*time.Millisecond, func() { c.elect(1) })
					})
				}
				_, err := cl.Enqueue(bounded(t), NewJob{ID: fmt.Sprintf("j%d-%d", caller, i)})
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if n, _, _ := c.counts(); n != callers*each {
		t.Errorf("%d jobs of %d", n, callers*each)
	}
}

func TestLostAnswersDoNotRepeatTheWrite(t *testing.T) {
	for name, f := range map[string]fault{"cut": cutAfter, "half an answer": half, "garbage": garbage} {
		t.Run(name, func(t *testing.T) {
			c, cl := newPair(t)
			c.faultFor(v1.PathJobs, 2, f)
			got, err := cl.Enqueue(bounded(t), NewJob{Payload: json.RawMessage("1")})
			if n, _, repeats := c.counts(); err != nil || !got.Duplicate || n != 1 || repeats != 2 {
				t.Fatalf("%+v, %v, %d jobs, %d repeats", got, err, n, repeats)
			}
			c.faultFor(v1.PathClaim, 1, f)
			jobs, err := cl.Claim(bounded(t), ClaimOptions{Worker: "w", Max: 3})
			if _, n, repeats := c.counts(); err != nil || len(jobs) != 1 || n != 1 || repeats != 1 {
				t.Fatalf("%+v, %v, %d claims, %d repeats", jobs, err, n, repeats)
			}
			c.faultFor(v1.PathJobs, 1, f)
			err = cl.Complete(bounded(t), jobs[0].Lease(), nil)
			if _, _, repeats := c.counts(); err != nil || repeats != 1 {
				t.Fatalf("%v, %d repeats", err, repeats)
			}
		})
	}
}

// A report without a token gets an idempotency key, so that the server recognises
// its repetition.
func TestReportWithoutTokenIsDoneOnce(t *testing.T) {
	c, cl := newPair(t)
	c.faultFor(v1.PathJobs, 1, cutAfter)
	if err := cl.Fail(bounded(t), Lease{JobID: "j", Worker: "w"}, Failure{}); err != nil {
		t.Error(err)
	}
	if n := c.done("/v1/jobs/j/fail"); n != 1 || c.header(v1.HeaderIdempotencyKey) == "" {
		t.Errorf("done %d times", n)
	}
}

func TestAnonymousClaimIsNotRepeatedBlindly(t *testing.T) {
	c, cl := newPair(t)
	c.faultFor(v1.PathClaim, 1, cutAfter)
	_, err := cl.Claim(bounded(t), ClaimOptions{})
	if e := failed(t, err); e.Committed != CommittedUnknown || len(c.requests()) != 1 {
		t.Errorf("committed %q after %d requests", e.Committed, len(c.requests()))
	}
	c.faultFor(v1.PathClaim, 1, refusing(503, v1.TagOverloaded, v1.CommittedNo, 0))
	if _, err := cl.Claim(bounded(t), ClaimOptions{}); err != nil {
		t.Errorf("what certainly did nothing was not repeated: %v", err)
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	c, cl := newPair(t)
	header := func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		w.Header().Set("Retry-After", "1")
		refuse(w, 503, v1.TagOverloaded, v1.CommittedNo, 0)
	}
	for name, f := range map[string]fault{
		"header": header,
		"member": refusing(429, v1.TagOverloaded, v1.CommittedNo, 1000),
	} {
		c.faultFor(v1.PathJobs, 1, f)
		began := time.Now()
		added(t, cl, NewJob{})
		if took := time.Since(began); took < time.Second || took > 3*time.Second {
			t.Errorf("%s: repeated after %v", name, took)
		}
	}
}

// Retry-After is about the node that sent it: a new leader need not wait.
func TestNewLeaderEndsThePause(t *testing.T) {
	c := newCluster(t)
	c.elect(0)
	cl := c.client(nil)
	c.faultFor(v1.PathJobs, 1, func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		c.elect(-1)
		time.AfterFunc(200*time.Millisecond, func() { c.elect(1) })
		refuse(w, 503, v1.TagNotLeader, v1.CommittedNo, 4000)
	})
	began := time.Now()
	added(t, cl, NewJob{})
	if took := time.Since(began); took < 200*time.Millisecond || took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// Where a redirect leads to, a dead leader or anywhere else, is not asked: the
// leader is looked for instead.
func TestRedirectIsNotFollowed(t *testing.T) {
	c, cl := newPair(t)
	c.kill(2)
	for name, to := range map[string]int{"dead": 2, "living": 0} {
		c.elect(0)
		c.faultFor(v1.PathJobs, 1, func(_ *node, w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
			c.elect(1)
			http.Redirect(w, r, c.nodes[to].srv.URL+"/elsewhere", http.StatusTemporaryRedirect)
		})
		added(t, cl, NewJob{})
		got := c.requests()
		if got[len(got)-1] != "1 POST /v1/jobs" || strings.Contains(strings.Join(got, ";"), "elsewhere") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Behind one address that is not the leader's, followers forward.
func TestWorksThroughAFollower(t *testing.T) {
	c := newCluster(t)
	c.elect(2)
	cl := c.client(func(cfg *Config) { cfg.Servers = cfg.Servers[:1] })
	for range 3 {
		added(t, cl, NewJob{})
	}
	if got := c.requests(); len(got) != 6 || got[0] != "0 POST /v1/jobs" || got[1] != "2 POST /v1/jobs" {
		t.Errorf("%v", got)
	}
}

// A node that still calls itself leader, in an older term, is not believed.
func TestStaleLeaderIsNotBelieved(t *testing.T) {
	c := newCluster(t)
	c.elect(1)
	c.setFault(func(n *node, r *http.Request) fault {
		switch {
		case n.i == 0 && r.URL.Path == v1.PathStatus:
			return func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
				writeJSON(w, 200, v1.Status{State: v1.StateLeader, Term: 1})
			}
		case n.i == 0:
			return refusing(503, v1.TagNotLeader, v1.CommittedNo, 0)
		}
		return nil
	})
	cl := c.client(nil)
	cl.tracker.discover(bounded(t)) // may come upon the stale one first
	added(t, cl, NewJob{})
	for range 5 {
		if tgt := cl.tracker.discover(bounded(t)); tgt == nil || tgt.url != c.nodes[1].srv.URL {
			t.Fatalf("%+v", tgt)
		}
	}
}

func TestFrozenLeader(t *testing.T) {
	c := newCluster(t)
	c.elect(0)
	cl := c.client(func(cfg *Config) { cfg.AttemptTimeout = 200 * time.Millisecond })
	added(t, cl, NewJob{})
	c.setFault(func(n *node, _ *http.Request) fault {
		if n.i == 0 {
			return frozen
		}
		return nil
	})
	c.elect(1)
	began := time.Now()
	added(t, cl, NewJob{})
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// A long poll at a frozen leader ends when another call has found the new one.
func TestLongPollFollowsTheLeader(t *testing.T) {
	c := newCluster(t)
	c.elect(0)
	cl := c.client(func(cfg *Config) { cfg.AttemptTimeout = 300 * time.Millisecond })
	entered := make(chan struct{}, 1)
	c.setFault(func(n *node, r *http.Request) fault {
		if n.i != 0 || r.URL.Path == v1.PathStatus {
			return nil
		}
		if r.URL.Path == v1.PathClaim {
			entered <- struct{}{}
		}
		return frozen
	})
	claimed := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := cl.Claim(bounded(t), ClaimOptions{Worker: "w", Wait: 15 * time.Second})
		claimed <- err
	}()
	<-entered
	c.elect(1)
	added(t, cl, NewJob{})
	check(t, <-claimed)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// A program of another kind listens on one of the ports.
func TestForeignServerIsPassedOver(t *testing.T) {
	c := newCluster(t)
	c.elect(1)
	c.setFault(func(n *node, _ *http.Request) fault {
		if n.i == 1 {
			return nil
		}
		return func(_ *node, w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
			http.NotFound(w, r)
		}
	})
	cl := c.client(nil)
	cl.tracker.barren = time.Now() // so that the first attempt goes to whose turn it is
	added(t, cl, NewJob{})
	if got := strings.Join(c.requests(), ";"); !strings.HasSuffix(got, "1 POST /v1/jobs") {
		t.Error(got)
	}
}
