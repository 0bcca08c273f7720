package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/past"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
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

// Reads with at= show the state of the bucket, and not the present one.
func TestPast(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"old","type":"mail"}`))
	lsn := g.node.View().LSN().String()
	g.flush()
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"new","type":"mail"}`))
	if a := g.do("POST", "/v1/jobs/old/cancel", ""); a.status != http.StatusOK {
		t.Fatal(a.status)
	}
	spans := ok[v1.Past](t, g.do("GET", v1.PathPast, ""))
	if len(spans.Spans) != 1 || spans.Spans[0].ToLSN != lsn {
		t.Errorf("%+v, want one piece up to %s", spans, lsn)
	}
	for _, at := range []string{fmt.Sprint(startMs), lsn} {
		get := func(path string) answer { return g.do("GET", path+"at="+at, "", "Prefer", v1.PreferStrict) }
		if list := ok[v1.JobList](t, get("/v1/jobs?status=all&")); len(list.Jobs) != 1 || list.Jobs[0].ID != "old" || list.Unclaimed != 1 {
			t.Errorf("at %s: %+v", at, list)
		}
		if j := ok[v1.Job](t, get("/v1/jobs/old?")); j.Status != v1.StatusUnclaimed {
			t.Errorf("at %s: the job is %s", at, j.Status)
		}
		refused(t, get("/v1/jobs/new?"), http.StatusNotFound, v1.TagNotFound)
		if n := ok[v1.JobCount](t, get("/v1/stats/jobs?status=all&")); n.Count != 1 {
			t.Errorf("at %s: %d jobs", at, n.Count)
		}
		if s := ok[v1.Stats](t, get("/v1/stats?types=true&")); s.Types["mail"].Unclaimed != 1 || s.LSN != lsn {
			t.Errorf("at %s: %+v", at, s)
		}
		if q := ok[v1.Queue](t, get("/v1/queues/mail?")); q.Unclaimed != 1 || q.OldestAt == 0 {
			t.Errorf("at %s: %+v", at, q)
		}
		for _, path := range []string{"/v1/queues?", "/v1/crons?", "/v1/workers?", "/v1/batches?", "/v1/stats/history?"} {
			if a := get(path); a.status != http.StatusOK {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
	refused(t, g.do("GET", "/v1/jobs?at=9-9", ""), http.StatusNotFound, v1.TagNotKept)
	for _, bad := range []string{"", "yesterday", "17", "99999999999999", "-1", "0-0", lsn + "&minLsn=" + lsn} {
		refused(t, g.do("GET", "/v1/jobs?at="+bad, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}

// fakePast returns an error for every state.
type fakePast struct{ err error }

func (f fakePast) At(context.Context, past.Target) (*past.State, error) { return nil, f.err }
func (f fakePast) Spans(context.Context) ([]past.Span, error)           { return nil, f.err }

// pastErrors are the errors of a rebuild and their answers.
var pastErrors = []struct {
	err    error
	status int
	tag    string
}{
	{past.ErrBusy, 503, v1.TagRebuilding},
	{fmt.Errorf("x: %w", past.ErrNotKept), 404, v1.TagNotKept},
	{past.ErrTooLarge, 507, v1.TagStateTooLarge},
	{past.ErrOff, 501, v1.TagPastOff},
	{errors.New("connection refused"), 502, v1.TagBucket},
}

// Each error of a rebuild has an answer that says what to do.
func TestPastErrors(t *testing.T) {
	t.Parallel()
	for _, c := range pastErrors {
		g := newRig(t, func(cfg *core.Config) { cfg.Past = fakePast{c.err} })
		refused(t, g.do("GET", "/v1/jobs?at=3-1", ""), c.status, c.tag)
		refused(t, g.do("GET", v1.PathPast, ""), c.status, c.tag)
	}
}

// A token that can follow jobs cannot read earlier states, and a scope holds for them as well.
func TestPastRights(t *testing.T) {
	t.Parallel()
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","type":"mail"}`, admin...))
	g.flush()
	ok[v1.Job](t, g.do("GET", fmt.Sprintf("/v1/jobs/a?at=%d", startMs), "", admin...))
	producer := g.give(&fsmpb.Token{Role: uint32(fsm.RoleProducer)})
	ok[v1.Job](t, g.do("GET", "/v1/jobs/a", "", producer...))
	p := refused(t, g.do("GET", fmt.Sprintf("/v1/jobs/a?at=%d", startMs), "", producer...), http.StatusForbidden, v1.TagForbidden)
	if !strings.Contains(p.Detail, "read") {
		t.Error(p.Detail)
	}
	other := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"other"}})
	refused(t, g.do("GET", fmt.Sprintf("/v1/jobs/a?at=%d", startMs), "", other...), http.StatusNotFound, v1.TagNotFound)
}

// The SDK reads an earlier state with the context of a moment, by LSN and by time.
func TestPastByTheClient(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","type":"mail"}`))
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"b","type":"mail","after":["a"]}`))
	lsn := g.node.View().LSN().String()
	g.flush()
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"c","type":"mail","after":["b"]}`))
	c := newClient(t, g)
	byLSN := must[client.Moment](t)(client.ParseLSN(" " + lsn))
	for _, m := range []client.Moment{byLSN, {Time: time.UnixMilli(startMs)}} {
		ctx := client.At(t.Context(), m)
		if graph := must[v1.Graph](t)(c.JobGraph(ctx, "b", 0)); len(graph.Jobs) != 2 {
			t.Errorf("at %s the graph has %+v, want a and b", m, graph.Jobs)
		}
		if n := must[uint64](t)(c.CountJobs(ctx, client.ListOptions{})); n != 2 {
			t.Errorf("at %s there are %d jobs, want 2", m, n)
		}
		if _, err := c.Job(ctx, "c"); !client.IsNotFound(err) {
			t.Errorf("at %s job c: %v, want that it is not found", m, err)
		}
		var refused *client.Error
		if _, err := c.Hooks(ctx); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
			t.Errorf("hooks at %s: %v, want a refusal, because hooks have no past", m, err)
		}
	}
	if graph := must[v1.Graph](t)(c.JobGraph(t.Context(), "b", 0)); len(graph.Jobs) != 3 {
		t.Errorf("now the graph has %+v, want a, b and c", graph.Jobs)
	}
	for _, bad := range []string{"", "x", "1", "0-0", "1-2-3", "-1-2"} {
		if m, err := client.ParseLSN(bad); err == nil {
			t.Errorf("%q is the LSN %s", bad, m)
		}
	}
}
