package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/leader"
	"osqueue/fsm"
)

func TestErrorsOfTheNode(t *testing.T) {
	for _, tc := range []struct {
		err       error
		status    int
		tag       string
		committed string
		retry     string
	}{
		{cluster.ErrNotLeader, 503, v1.TagNotLeader, v1.CommittedNo, "1"},
		{cluster.ErrOverloaded, 503, v1.TagOverloaded, v1.CommittedNo, "1"},
		{cluster.ErrTooLarge, 413, v1.TagTooLarge, v1.CommittedNo, ""},
		{cluster.ErrFlushLag, 503, v1.TagFlushLag, v1.CommittedNo, "2"},
		{cluster.ErrClosed, 503, v1.TagClosing, v1.CommittedNo, "1"},
		{cluster.ErrUnknown, 503, v1.TagUnknownOutcome, v1.CommittedUnknown, "1"},
		{fmt.Errorf("%w: %w", cluster.ErrUnknown, cluster.ErrNotLeader), 503, v1.TagUnknownOutcome, v1.CommittedUnknown, "1"},
		{context.DeadlineExceeded, 504, v1.TagTimeout, v1.CommittedNo, "1"},
		{errors.New("disk /dev/sda1 said no"), 500, v1.TagInternal, v1.CommittedUnknown, ""},
	} {
		g := newRig(t)
		g.node.set(func(f *fakeNode) { f.proposeErr = fmt.Errorf("propose: %w", tc.err) })
		for _, path := range []string{"/v1/jobs", "/v1/jobs/a/complete", "/v1/workers"} {
			a := g.do("POST", path, `{"name":"w"}`)
			p := refused(t, a, tc.status, tc.tag)
			if p.Committed != tc.committed || a.header.Get("Retry-After") != tc.retry || (p.RetryAfterMs > 0) != (tc.retry != "") {
				t.Errorf("%v: %s, Retry-After %q", tc.err, a.body, a.header.Get("Retry-After"))
			}
			if strings.Contains(string(a.body), "sda1") || strings.Contains(string(a.body), "propose:") {
				t.Errorf("%v: the inside shows in %s", tc.err, a.body)
			}
		}
	}
}

// The lag of the bucket is not the caller's fault: the answer explains it.
func TestTooFarBehind(t *testing.T) {
	g := newRig(t)
	lag := &leader.FlushLagError{Lag: 301*time.Second + 42*time.Millisecond, Max: 5 * time.Minute, Cause: "connection refused"}
	g.node.set(func(f *fakeNode) { f.proposeErr = fmt.Errorf("propose: %w", lag) })
	p := refused(t, g.do("POST", "/v1/jobs?ack=object", `{}`), http.StatusServiceUnavailable, v1.TagFlushLag)
	if p.Detail != lag.Error() || p.LagMs != 301_042 || p.MaxFlushLagMs != 300_000 || p.Reason != "connection refused" ||
		p.Committed != v1.CommittedNo || p.RetryAfterMs != 2000 {
		t.Fatalf("got %+v", p)
	}
}

func TestEveryCodeHasAnAnswer(t *testing.T) {
	for code := fsm.OK; code.String() != "unknown"; code++ {
		err := code.Err()
		if err == nil || code == fsm.OldEpoch { // only brokers get that
			continue
		}
		f := core.FailureOf(err)
		client := f.Status >= 400 && f.Status < 500 || f.Status == http.StatusInsufficientStorage
		if f.Tag != code.String() || !client || f.Detail != err.Error() || f.Unknown || f.Title == "" {
			t.Errorf("%s is answered with %d %s %q", code, f.Status, f.Tag, f.Detail)
		}
	}
}

// panicking is a backend with a bug.
type panicking struct{ *fakeNode }

func (panicking) Job(string) *fsm.Job { panic("a secret bug") }

func (panicking) Now() int64 { panic("another bug") }

func TestPanicsCostOneRequest(t *testing.T) {
	var log strings.Builder
	g := newRig(t, func(c *core.Config) {
		c.Backend = panicking{c.Backend.(*fakeNode)}
		c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	})
	a := g.do("GET", "/v1/jobs/a", "")
	if p := refused(t, a, http.StatusInternalServerError, v1.TagInternal); p.Committed != "" || strings.Contains(string(a.body), "secret") {
		t.Fatalf("answered %s", a.body)
	}
	p := refused(t, g.do("POST", "/v1/jobs", `{"delayMs":1}`), http.StatusInternalServerError, v1.TagInternal)
	if p.Committed != v1.CommittedUnknown {
		t.Fatalf("committed %q", p.Committed)
	}
	if !strings.Contains(log.String(), "a secret bug") || !strings.Contains(log.String(), "problem_test.go") {
		t.Fatalf("the log has %s", log.String())
	}
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{}`))
}

func TestTheClientThatHasGone(t *testing.T) {
	g := newRig(t)
	stall := make(chan struct{})
	defer close(stall)
	g.node.set(func(f *fakeNode) { f.stall = stall })
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if a := g.send(request("POST", "/v1/jobs", `{}`).WithContext(ctx)); a.status != 499 {
		t.Fatalf("answered %d", a.status)
	}
}
