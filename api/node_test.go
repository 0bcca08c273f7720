package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/snapshot"
	"osqueue/fsm"
	"osqueue/storage/cost"
)

func TestStatusOfTheBucket(t *testing.T) {
	var box v1.Inbox
	g := newRig(t, func(c *core.Config) { c.Ack, c.Inbox = v1.AckObject, func() v1.Inbox { return box } })
	out := ok[v1.Status](t, g.do("GET", "/status", ""))
	if out.Ack != v1.AckObject || out.Document != nil || out.Bucket != nil || out.Snapshots != nil || out.Inbox != nil || out.Refusing != "" || out.FlushIntervalMs != 0 {
		t.Fatalf("got %+v", out)
	}
	box = v1.Inbox{Taken: 1, Repeated: 2, Rejected: 3, Waiting: 4, Failing: "no list"}
	since := time.UnixMilli(startMs)
	g.node.set(func(f *fakeNode) {
		f.status = func(st *cluster.Status) {
			st.FlushedLSN, st.LagEntries, st.LagBytes, st.LagMs = fsm.LSN{Term: 2, Index: 9}, 3, 400, 50
			st.MaxFlushLagMs, st.FlushIntervalMs, st.Refusing, st.FlushError = 300_000, 1000, "too far behind", "timeout"
			st.DocumentView, st.DocumentBytes, st.LogBytes = true, 7000, 9000
			st.CheckpointLSN, st.ArchiveLSN = fsm.LSN{Term: 2, Index: 1}, fsm.LSN{Term: 2, Index: 8}
			st.Bucket = cost.Report{
				Since: since, Counts: cost.Counts{Gets: 1, Creates: 2, Replaces: 3, Lists: 4, Deletes: 5, BytesRead: 6, BytesWritten: 7},
				Cost: cost.Dollar / 4, Projected: 6 * cost.Dollar, Budget: 5 * cost.Dollar,
			}
			st.Snapshots = snapshot.Status{Local: snapshot.Point{Term: 2, Index: 7, At: since}, Damaged: "2-7"}
		}
	})
	out = ok[v1.Status](t, g.do("GET", "/status", ""))
	if got := fmt.Sprintln(out.FlushedLSN, out.LagEntries, out.LagBytes, out.LagMs, out.MaxFlushLagMs, out.FlushIntervalMs, out.Refusing, out.FlushError); got !=
		"2-9 3 400 50 300000 1000 too far behind timeout\n" {
		t.Errorf("lag: %s", got)
	}
	if want := (v1.Document{View: true, Bytes: 7000, CheckpointLSN: "2-1", ArchiveLSN: "2-8", LogBytes: 9000}); *out.Document != want {
		t.Errorf("document: %+v", out.Document)
	}
	if got := fmt.Sprint(*out.Bucket); got != "{1700000000000 map[delete:5 get:1 list:4 put_if_absent:2 put_if_match:3] 6 7 0.25 6 5}" {
		t.Errorf("bucket: %s", got)
	}
	if s := out.Snapshots; *s.Local != (v1.SnapshotPoint{Term: 2, Index: 7, At: startMs}) || s.Damaged != "2-7" {
		t.Errorf("snapshots: %+v", s)
	}
	if *out.Inbox != box {
		t.Errorf("inbox: %+v", out.Inbox)
	}
}

func TestHealth(t *testing.T) {
	g := newRig(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		sameJSON(t, g.do("GET", path, "").body, `{"status":"ok"}`)
		// The original's client sends a content type with everything.
		sameJSON(t, g.do("GET", path, "", "Content-Type", "application/json").body, `{"status":"ok"}`)
	}
	for _, peers := range [][]cluster.Peer{{{Name: "n1", ServerID: "n1~1"}}, {{Name: "n1", ServerID: "n1~0", Voter: true}}, nil} {
		g.node.set(func(f *fakeNode) { f.status = func(st *cluster.Status) { st.Peers = peers } })
		p := refused(t, g.do("GET", "/readyz", ""), http.StatusServiceUnavailable, v1.TagNoLeader)
		if !strings.Contains(p.Detail, "node n1 has no vote yet") {
			t.Errorf("peers %v: %q", peers, p.Detail)
		}
	}
	g.node.set(func(f *fakeNode) { f.leader, f.lead, f.status = "", false, nil })
	sameJSON(t, g.do("GET", "/healthz", "").body, `{"status":"ok"}`)
	a := g.do("GET", "/readyz", "")
	refused(t, a, http.StatusServiceUnavailable, v1.TagNoLeader)
	if a.header.Get("Retry-After") == "" {
		t.Fatal("no Retry-After")
	}
	g.node.set(func(f *fakeNode) {
		f.status = func(st *cluster.Status) { st.Fence, st.FenceReason = cluster.FenceStandby, "another broker is alive" }
	})
	p := refused(t, g.do("GET", "/readyz", ""), http.StatusServiceUnavailable, v1.TagNoLeader)
	if p.Detail != "node n1 is raft's leader, but does not serve requests yet (standby: another broker is alive)" {
		t.Fatalf("detail %q", p.Detail)
	}
	g.end()
	refused(t, g.do("GET", "/readyz", ""), http.StatusServiceUnavailable, v1.TagClosing)
}

// A non-voter is ready, because it gets no vote. A node that drains is not.
func TestReadyOfNonVotersAndOfDraining(t *testing.T) {
	g := newRig(t)
	g.node.set(func(f *fakeNode) {
		f.status = func(st *cluster.Status) { st.Peers = []cluster.Peer{{Name: "n1", ServerID: "n1~1", NonVoter: true}} }
	})
	sameJSON(t, g.do("GET", "/readyz", "").body, `{"status":"ok"}`)
	if a := g.do("POST", v1.PathDrain, ""); a.status != http.StatusOK {
		t.Fatalf("drain: %d %s", a.status, a.body)
	}
	refused(t, g.do("GET", "/readyz", ""), http.StatusServiceUnavailable, v1.TagClosing)
	sameJSON(t, g.do("GET", "/healthz", "").body, `{"status":"ok"}`)
}

// A follower is ready when the leader that it would ask says that it is.
func TestReadyThroughTheLeader(t *testing.T) {
	p := newPair(t)
	for _, method := range []string{"GET", "HEAD"} {
		if a := p.follower.do(method, "/readyz", ""); a.status != http.StatusOK || method == "GET" && string(a.body) != `{"status":"ok"}` {
			t.Fatalf("%s: answered %d %s", method, a.status, a.body)
		}
	}
	p.leader.node.set(func(f *fakeNode) {
		f.leader, f.lead = "", false
		f.status = func(st *cluster.Status) { st.Fence, st.FenceReason = cluster.FenceStandby, "another broker is alive" }
	})
	problem := refused(t, p.follower.do("GET", "/readyz", ""), http.StatusServiceUnavailable, v1.TagNoLeader)
	if !strings.Contains(problem.Detail, "standby: another broker is alive") {
		t.Fatalf("detail %q", problem.Detail)
	}
	sameJSON(t, p.follower.do("GET", "/healthz", "").body, `{"status":"ok"}`)
	// It no longer leads, and knows another leader: the request is not forwarded a second time.
	p.leader.node.set(func(f *fakeNode) { f.leader = "10.9.9.9:1" })
	refused(t, p.follower.do("GET", "/readyz", ""), http.StatusServiceUnavailable, v1.TagNotLeader)
	p.leader.node.set(func(f *fakeNode) { f.leader, f.lead = "10.0.0.1:8080", true })
	sameJSON(t, p.follower.do("GET", "/readyz", "").body, `{"status":"ok"}`)
}

// A leader that hangs, or is gone, does not count as leader for long.
func TestReadyWithALeaderThatIsSilent(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	g := newFollower(t, srv.Listener.Addr().String())
	began := time.Now()
	p := refused(t, g.do("GET", "/readyz", ""), http.StatusServiceUnavailable, v1.TagLeaderGone)
	if took := time.Since(began); took < 2*time.Second || took > 6*time.Second || !strings.Contains(p.Detail, "within 2s") {
		t.Errorf("after %s: %q", took, p.Detail)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	g = newFollower(t, gone.Listener.Addr().String())
	refused(t, g.do("GET", "/readyz", ""), http.StatusServiceUnavailable, v1.TagLeaderGone)
}

// The headers of nodes do not get past the HTTP port and the admin socket.
func TestClientsCannotForward(t *testing.T) {
	names := []string{v1.HeaderForwarded, v1.HeaderPrincipal, v1.HeaderCertificate}
	var got http.Header
	h := outside(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	r := httptest.NewRequest(http.MethodPost, "/v1/jobs", nil)
	for _, name := range names {
		r.Header.Set(name, "local-admin")
	}
	h.ServeHTTP(httptest.NewRecorder(), r)
	for _, name := range names {
		if v := got.Get(name); v != "" {
			t.Errorf("%s reaches the API as %q", name, v)
		}
	}
}

func TestThrottleStats(t *testing.T) {
	if a := newRig(t).do("GET", v1.PathThrottle, ""); a.status != 200 || string(a.body) != `{"throttling":false}` {
		t.Errorf("without limits: %d %s", a.status, a.body)
	}
	g := newRig(t, func(c *core.Config) {
		c.Throttle = func() v1.ThrottleStats { return v1.ThrottleStats{TotalWrites: 4, DailyWriteCount: 4} }
	})
	const want = `{"totalReads":0,"totalWrites":4,"throttledReads":0,"throttledWrites":0,` +
		`"totalReadDelayMs":0,"totalWriteDelayMs":0,"dailyWriteCount":4,"dailyBudgetExceeded":false}`
	if a := g.do("GET", v1.PathThrottle, ""); a.status != 200 || string(a.body) != want {
		t.Errorf("with limits: %d %s", a.status, a.body)
	}
}
