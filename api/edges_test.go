package api

import (
	"errors"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// A claim that waits longer than the leader may be silent is no failure, also
// if the leader only finds out that it has nothing.
func TestForwardedClaimMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNearPair(t, func(c *core.Config) { c.Timeouts.Forward = 100 * time.Millisecond })
		sameJSON(t, p.follower.do("POST", "/v1/jobs/claim", `{"waitMs":300}`).body, `{}`)
		sameJSON(t, p.follower.do("POST", "/v1/jobs/claim", `{"waitMs":300,"max":2}`).body, `{"jobs":[]}`)
	})
}

// tracedTransport reports the steps of a request as net/http does, and fails.
type tracedTransport struct{ steps []string }

func (tt *tracedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	for _, step := range tt.steps {
		switch step {
		case "connection":
			trace.GetConn("leader:1")
		case "headers":
			trace.WroteHeaders()
		}
	}
	_ = r.Body.Close()
	return nil, errors.New("broken")
}

// net/http uses another connection only if nothing was written to the first one, so the state
// of the last one counts.
func TestWhatWasSentIsThatOfTheLastConnection(t *testing.T) {
	for want, steps := range map[string][]string{
		v1.CommittedNo:      {"connection", "headers", "connection"},
		v1.CommittedUnknown: {"connection", "connection", "headers"},
	} {
		g := newFollower(t, "leader:1", func(c *core.Config) { c.Transport = &tracedTransport{steps: steps} })
		p := refused(t, g.do("POST", "/v1/jobs", `{}`), http.StatusServiceUnavailable, v1.TagLeaderGone)
		if p.Committed != want {
			t.Errorf("%v: committed %q, want %q", steps, p.Committed, want)
		}
	}
}

// A body of unknown length has a length when it is forwarded.
func TestForwardedChunks(t *testing.T) {
	p := newPair(t)
	r := request("POST", "/v1/jobs", `{"id":"a"}`)
	r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	ok[v1.Enqueued](t, p.follower.send(r))
	if got := (<-p.seen).Get("Content-Length"); got != "10" {
		t.Fatalf("Content-Length %q", got)
	}
}

// A path that the router would not find is not found by the fast path either.
func TestEscapedPathsAreNotFixedOnes(t *testing.T) {
	g := newRig(t)
	for _, path := range []string{"/v1/jobs%2Fclaim", "/v1%2fjobs", "/%68ealthz", "/v1/jobs/", "//v1/jobs", "/v1/./jobs", "/V1/jobs"} {
		refused(t, g.do("POST", path, `{}`), http.StatusNotFound, v1.TagNoRoute)
	}
}

func TestBodyLimitIsLowered(t *testing.T) {
	for given, want := range map[int64]int64{0: core.DefaultBodyBytes, -1: core.DefaultBodyBytes, 77: 77, 1 << 40: core.MaxBodyBytes} {
		g := newRig(t, func(c *core.Config) { c.MaxBody, c.Limits.ClaimJobs = given, 1<<30 })
		if g.s.Config.MaxBody != want || g.s.Config.Limits.ClaimJobs != 16_384 {
			t.Errorf("%d: a limit of %d bytes, claims of %d", given, g.s.Config.MaxBody, g.s.Config.Limits.ClaimJobs)
		}
	}
}

// Every step of a connection has a timeout.
func TestEveryConnectionHasTimeouts(t *testing.T) {
	g := newRig(t)
	d := core.DefaultTimeouts()
	h := g.s.http
	if h.ReadHeaderTimeout != d.Header || h.ReadTimeout != d.Body || h.WriteTimeout != d.Answer || h.IdleTimeout != d.Idle ||
		min(d.Header, d.Body, d.Answer, d.Idle) <= 0 {
		t.Fatalf("timeouts %s %s %s %s", h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout, h.IdleTimeout)
	}
}

func TestNewPanicsWithoutBackend(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("it did not")
		}
	}()
	New(core.Config{})
}
