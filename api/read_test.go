package api

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
)

func TestReadsOfTheLeaderAreConfirmed(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.node.set(func(f *fakeNode) { f.linearErr = cluster.ErrNotLeader })
	for _, path := range []string{"/v1/jobs", "/v1/jobs/a", "/v1/stats", "/v1/workers", "/state"} {
		p := refused(t, g.do("GET", path, ""), http.StatusServiceUnavailable, v1.TagNotLeader)
		if p.Committed != "" {
			t.Errorf("%s: committed %q", path, p.Committed)
		}
		refused(t, g.do("GET", path+"?consistency=leader", ""), http.StatusServiceUnavailable, v1.TagNotLeader)
		if a := g.do("GET", path+"?consistency=local", ""); a.status != http.StatusOK {
			t.Errorf("%s: answered %d %s", path, a.status, a.body)
		}
	}
	// Those are about the node that is asked.
	for _, path := range []string{"/status", "/healthz", "/readyz", "/metrics"} {
		if a := g.do("GET", path, ""); a.status != http.StatusOK {
			t.Errorf("%s: answered %d %s", path, a.status, a.body)
		}
	}
}

func TestReadsWithoutLeader(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.node.set(func(f *fakeNode) { f.leader, f.lead = "", false })
	p := refused(t, g.do("GET", "/v1/jobs/a", ""), http.StatusServiceUnavailable, v1.TagNoLeader)
	if !strings.Contains(p.Detail, "consistency=local") {
		t.Fatalf("detail %q", p.Detail)
	}
	a := g.do("POST", "/v1/jobs", `{}`)
	p = refused(t, a, http.StatusServiceUnavailable, v1.TagNoLeader)
	if p.Committed != v1.CommittedNo || a.header.Get("Retry-After") == "" || strings.Contains(p.Detail, "consistency") {
		t.Fatalf("problem %+v", p)
	}
	if ok[v1.Job](t, g.do("GET", "/v1/jobs/a?consistency=local", "")).ID != "a" {
		t.Fatal("the local state does not have it")
	}
	if ok[v1.Job](t, g.do("GET", "/v1/jobs/a?minLsn=3-2", "")).ID != "a" {
		t.Fatal("the local state does not have it")
	}
}

func TestReadsWaitForAnLSN(t *testing.T) {
	g := newRig(t)
	g.node.set(func(f *fakeNode) { f.leader, f.lead = "n2:1", false })
	done := make(chan answer, 1)
	go func() { done <- g.send(request("GET", "/v1/jobs/a?minLsn=3-2&waitMs=60000", "")) }()
	select {
	case a := <-done:
		t.Fatalf("answered %d %s before it was applied", a.status, a.body)
	case <-time.After(20 * time.Millisecond):
	}
	if _, _, err := g.node.apply(core.EnqueueOf(nil)); err != nil {
		t.Fatal(err)
	}
	refused(t, <-done, http.StatusNotFound, v1.TagNotFound)
}

func TestReadsThatWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		start := time.Now()
		p := refused(t, g.do("GET", "/v1/stats?minLsn=9-9", ""), http.StatusGatewayTimeout, v1.TagTimeout)
		if !strings.Contains(p.Detail, "9-9") || !strings.Contains(p.Detail, "3-1") || time.Since(start) != 5*time.Second {
			t.Fatalf("after %s: %q", time.Since(start), p.Detail)
		}
		start = time.Now()
		refused(t, g.do("GET", "/v1/stats?minLsn=9-9&waitMs=10", ""), http.StatusGatewayTimeout, v1.TagTimeout)
		if time.Since(start) != 10*time.Millisecond {
			t.Fatalf("after %s", time.Since(start))
		}
		start = time.Now()
		refused(t, g.do("GET", "/v1/stats?minLsn=9-9&consistency=leader&waitMs=999999999", ""), http.StatusGatewayTimeout, v1.TagTimeout)
		if time.Since(start) != time.Minute {
			t.Fatalf("after %s", time.Since(start))
		}
	})
}

func TestReadsEndWithTheServer(t *testing.T) {
	g := newRig(t)
	done := make(chan answer, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		done <- g.send(request("GET", "/v1/stats?minLsn=9-9&waitMs=60000", ""))
	}()
	<-started
	g.end()
	refused(t, <-done, http.StatusServiceUnavailable, v1.TagClosing)
}

func TestBadReads(t *testing.T) {
	g := newRig(t)
	for _, query := range []string{"minLsn=5", "minLsn=a-b", "minLsn=-1-2", "waitMs=x", "waitMs=-1", "consistency=strong", "a=%"} {
		refused(t, g.do("GET", "/v1/stats?"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}
