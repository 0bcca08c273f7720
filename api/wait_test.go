package api

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// later sends a request in the background.
func (g *rig) later(ctx context.Context, method, path string) <-chan answer {
	out := make(chan answer, 1)
	go func() { out <- g.send(request(method, path, "").WithContext(ctx)) }()
	return out
}

func (g *rig) awaiting(n int) func() bool {
	return func() bool {
		g.node.mu.Lock()
		defer g.node.mu.Unlock()
		return g.node.awaiting == n
	}
}

func TestWaitForTheEnd(t *testing.T) {
	for name, end := range map[string]struct{ method, path, body, status string }{
		"completed": {"POST", "/v1/jobs/a/complete", `{"workerId":"w","result":5}`, v1.StatusCompleted},
		"dead":      {"POST", "/v1/jobs/a/fail", `{"workerId":"w","retryable":false}`, v1.StatusDead},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.submit("a", "t")
			waiting := g.later(t.Context(), "GET", "/v1/jobs/a?waitMs=60000")
			eventually(t, "the read waits", g.awaiting(1))
			g.claim1()
			g.submit("b", "t")
			select {
			case a := <-waiting:
				t.Fatalf("answered %s before the end", a.body)
			case <-time.After(10 * time.Millisecond):
			}
			g.do(end.method, end.path, end.body)
			if j := ok[v1.Job](t, <-waiting); j.Status != end.status || j.Waited != nil {
				t.Fatalf("got %+v", j)
			}
		})
	}
}

func TestWaitOfWhatHasEnded(t *testing.T) {
	g := newRig(t)
	g.fill()
	for _, id := range []string{"dead", "done0"} {
		if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/"+id+"?waitMs=60000", "")); j.Waited != nil {
			t.Fatalf("got %+v", j)
		}
	}
	refused(t, g.do("GET", "/v1/jobs/nope?waitMs=60000", ""), http.StatusNotFound, v1.TagNotFound)
	// A job that is deleted while a client waits for it.
	waiting := g.later(t.Context(), "GET", "/v1/jobs/waiting?waitMs=60000")
	eventually(t, "the read waits", g.awaiting(1))
	ok[v1.Reported](t, g.do("DELETE", "/v1/jobs/waiting", ""))
	refused(t, <-waiting, http.StatusNotFound, v1.TagNotFound)
}

func TestWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.submit("a", "t")
		for query, want := range map[string]time.Duration{
			"waitMs=0": 0, "waitMs=10": 10 * time.Millisecond, "waitMs=9999999999": time.Minute,
			"consistency=local&waitMs=10": 10 * time.Millisecond, "minLsn=3-2&waitMs=10": 10 * time.Millisecond,
		} {
			start := time.Now()
			j := ok[v1.Job](t, g.do("GET", "/v1/jobs/a?"+query, ""))
			if j.Waited == nil || *j.Waited || j.Status != v1.StatusUnclaimed || time.Since(start) != want {
				t.Errorf("%s: after %s %+v", query, time.Since(start), j)
			}
		}
		if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/a", "")); j.Waited != nil {
			t.Errorf("without a wait: %+v", j)
		}
		// How fresh the read is to be has a time of its own.
		start := time.Now()
		refused(t, g.do("GET", "/v1/jobs/a?minLsn=9-9&waitMs=10", ""), http.StatusGatewayTimeout, v1.TagTimeout)
		if time.Since(start) != 5*time.Second {
			t.Errorf("after %s", time.Since(start))
		}
	})
}

func TestWaitEnds(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		g := newRig(t)
		g.submit("a", "t")
		ctx, leave := context.WithCancel(t.Context())
		waiting := g.later(ctx, "GET", "/v1/jobs/a?waitMs=60000")
		eventually(t, "the read waits", g.awaiting(1))
		leave()
		<-waiting
		if !g.awaiting(0)() {
			t.Fatal("it waits on")
		}
	})
	t.Run("server", func(t *testing.T) {
		g := newRig(t)
		g.submit("a", "t")
		waiting := g.later(t.Context(), "GET", "/v1/jobs/a?waitMs=60000")
		eventually(t, "the read waits", g.awaiting(1))
		g.end()
		refused(t, <-waiting, http.StatusServiceUnavailable, v1.TagClosing)
	})
	for _, query := range []string{"waitMs=x", "waitMs=-1", "waitMs=1.5"} {
		g := newRig(t)
		refused(t, g.do("GET", "/v1/jobs/a?"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}

// The node that passes the read on has to be as patient as the leader.
func TestForwardedWaitForTheEnd(t *testing.T) {
	p := newPair(t, func(c *core.Config) { c.Timeouts.Forward, c.Timeouts.Fresh = time.Second, 50*time.Millisecond })
	p.leader.submit("a", "t")
	j := ok[v1.Job](t, p.follower.do("GET", "/v1/jobs/a?waitMs=1500", ""))
	if j.Waited == nil || *j.Waited {
		t.Fatalf("got %+v", j)
	}
	waiting := p.follower.later(t.Context(), "GET", "/v1/jobs/a?waitMs=60000")
	eventually(t, "the read waits", p.leader.awaiting(1))
	ok[v1.Reported](t, p.leader.do("POST", "/v1/jobs/a/cancel", ""))
	if j := ok[v1.Job](t, <-waiting); j.Status != v1.StatusCancelled || j.Waited != nil {
		t.Fatalf("got %+v", j)
	}
}
