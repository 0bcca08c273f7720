package api

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/cluster/leader"
	"osqueue/storage"
)

func TestWaitForAnLSN(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t") // 3-2
	a := g.do("GET", "/v1/lsn/3-2/wait", "")
	if got := ok[v1.LSNReached](t, a); got != (v1.LSNReached{LSN: "3-2", Level: v1.AckQuorum, AppliedLSN: "3-2", FlushedLSN: "0-0"}) {
		t.Errorf("got %+v", got)
	}
	applied := g.later(t.Context(), "GET", "/v1/lsn/3-3/wait?level=quorum&waitMs=60000")
	flushed := g.later(t.Context(), "GET", "/v1/lsn/3-3/wait?level=object&waitMs=60000")
	eventually(t, "one waits for the bucket", g.flushing(1))
	g.submit("b", "t")
	if got := ok[v1.LSNReached](t, <-applied); got.AppliedLSN != "3-3" || got.FlushedLSN != "0-0" {
		t.Errorf("got %+v", got)
	}
	g.node.flush()
	if got := ok[v1.LSNReached](t, <-flushed); got.LSN != "3-3" || got.Level != v1.AckObject || got.FlushedLSN != "3-3" {
		t.Errorf("got %+v", got)
	}
}

func TestWaitForAnLSNInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		for path, took := range map[string]time.Duration{
			"/v1/lsn/9-9/wait":                            10 * time.Second,
			"/v1/lsn/9-9/wait?level=object&waitMs=50":     50 * time.Millisecond,
			"/v1/lsn/9-9/wait?level=quorum&waitMs=0":      0,
			"/v1/lsn/3-1/wait?level=object&waitMs=999999": time.Minute,
		} {
			start := time.Now()
			p := refused(t, g.do("GET", path, ""), http.StatusGatewayTimeout, v1.TagTimeout)
			if p.AppliedLSN != "3-1" || p.FlushedLSN != "0-0" || p.RetryAfterMs == 0 || p.Committed != "" || time.Since(start) != took {
				t.Errorf("%s, after %s: %+v", path, time.Since(start), p)
			}
		}
	})
}

// A cluster that lost its nodes has adopted the document, and continues to count in a term of
// its own. Answered writes that are not in that document are lost. Their LSNs are lower than
// all new ones, and must not count as reached.
func TestWaitForAnLSNOfALostCluster(t *testing.T) {
	for _, level := range []string{"quorum", "object"} {
		g := newRig(t)
		waiting := g.later(t.Context(), "GET", "/v1/lsn/5-9/wait?waitMs=60000&level="+level)
		g.node.rescan(func(f *fakeNode) { f.m.Transplant("other", "", 3, 900) })
		g.submit("a", "t") // in the new term
		g.node.flush()
		for what, a := range map[string]answer{
			"waited for": <-waiting, "asked for": g.do("GET", "/v1/lsn/5-9/wait?level="+level, ""),
			"not to be told from a lost one": g.do("GET", "/v1/lsn/3-1/wait?level="+level, ""),
		} {
			p := refused(t, a, http.StatusGone, v1.TagLSNGone)
			if p.AppliedLSN != "900-2" || !strings.Contains(p.Detail, "check it, or repeat it") {
				t.Errorf("%s, %s: %+v", level, what, p)
			}
		}
		ok[v1.LSNReached](t, g.do("GET", "/v1/lsn/900-2/wait?level="+level, ""))
		ok[v1.LSNReached](t, g.do("GET", "/v1/lsn/0-0/wait?level="+level, ""))
	}
}

// A read that names an LSN of a lost cluster must not be answered as if the node had it.
func TestReadAtAnLSNOfALostCluster(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	waiting := g.later(t.Context(), "GET", "/v1/jobs/a?waitMs=60000&minLsn=5-9")
	g.node.rescan(func(f *fakeNode) { f.m.Transplant("other", "", 3, 900) })
	g.submit("b", "t") // in the new term
	refused(t, <-waiting, http.StatusGone, v1.TagLSNGone)
	refused(t, g.do("GET", "/v1/jobs/a?minLsn=5-9", ""), http.StatusGone, v1.TagLSNGone)
	ok[v1.Job](t, g.do("GET", "/v1/jobs/a?minLsn=900-2", ""))
	ok[v1.Job](t, g.do("GET", "/v1/jobs/a?minLsn=0-0", ""))
}

func TestBadWaitsForAnLSN(t *testing.T) {
	g := newRig(t)
	for _, path := range []string{
		"/v1/lsn/9/wait", "/v1/lsn/a-b/wait", "/v1/lsn/-1-2/wait", "/v1/lsn/3-1/wait?level=bucket",
		"/v1/lsn/3-1/wait?waitMs=x", "/v1/lsn/3-1/wait?waitMs=-1", "/v1/lsn/3-1/wait?level=object&level=quorum",
	} {
		refused(t, g.do("GET", path, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
	refused(t, g.do("GET", "/v1/lsn/3-1/wait?lvl=object", "", "Prefer", v1.PreferStrict), http.StatusBadRequest, v1.TagUnknownMember)
	refused(t, g.do("POST", "/v1/lsn/3-1/wait", ""), http.StatusMethodNotAllowed, v1.TagMethod)
	refused(t, g.do("GET", "/v1/lsn/3-1", ""), http.StatusNotFound, v1.TagNoRoute)
}

// A node knows the LSN that it has applied. Only the leader answers for the bucket.
func TestWaitForAnLSNOnAFollower(t *testing.T) {
	p := newPair(t, func(c *core.Config) { c.Timeouts.Forward = time.Second })
	g := p.follower
	p.leader.submit("a", "t") // 3-2; the follower is at 3-1
	refused(t, g.do("GET", "/v1/lsn/3-2/wait?waitMs=10", ""), http.StatusGatewayTimeout, v1.TagTimeout)
	late := refused(t, g.do("GET", "/v1/lsn/3-2/wait?level=object&waitMs=1300", ""), http.StatusGatewayTimeout, v1.TagTimeout)
	if late.AppliedLSN != "3-2" || !strings.Contains(late.Detail, "3-2") {
		t.Errorf("it is not the leader that answered: %+v", late)
	}
	waiting := g.later(t.Context(), "GET", "/v1/lsn/3-2/wait?level=object")
	eventually(t, "it waits at the leader", p.leader.flushing(1))
	p.leader.node.flush()
	ok[v1.LSNReached](t, <-waiting)
	g.node.rescan(func(f *fakeNode) { f.leader, f.flushed = "", p.leader.node.flushed })
	refused(t, g.do("GET", "/v1/lsn/3-2/wait?level=object", ""), http.StatusServiceUnavailable, v1.TagNoLeader)
	none := refused(t, g.do("GET", "/v1/lsn/3-3/wait?level=object", ""), http.StatusServiceUnavailable, v1.TagNoLeader)
	if strings.Contains(none.Detail, "consistency") {
		t.Errorf("detail %q", none.Detail)
	}
}

// TestDamagedArchiveThroughAFollower: while the leader knows of damage, no node says that a write
// is in the bucket, also of an LSN that it has heard to be there.
func TestDamagedArchiveThroughAFollower(t *testing.T) {
	p := newPair(t, func(*core.Config) {})
	p.leader.submit("a", "t") // 3-2
	p.leader.node.flush()
	p.follower.node.rescan(func(f *fakeNode) { f.flushed = p.leader.node.flushed })
	const wait, write = "/v1/lsn/3-2/wait?level=object", "/v1/jobs?ack=object"
	for name, g := range map[string]*rig{"leader": p.leader, "follower": p.follower} {
		if got := ok[v1.LSNReached](t, g.do("GET", wait, "")); got.FlushedLSN != "3-2" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	p.leader.node.rescan(func(f *fakeNode) { f.damaged = &leader.ArchiveError{Key: "log/a.seg", Cause: storage.ErrNotFound} })
	before := p.leader.node.written()
	for _, g := range []*rig{p.leader, p.follower} {
		refused(t, g.do("GET", wait, ""), http.StatusServiceUnavailable, v1.TagArchive)
		refused(t, g.do("POST", write, `{"type":"t"}`, "Content-Type", "application/json"), http.StatusServiceUnavailable, v1.TagArchive)
	}
	if p.leader.node.written() != before {
		t.Error("a refused write was made")
	}
	p.leader.node.rescan(func(f *fakeNode) { f.damaged = nil })
	ok[v1.LSNReached](t, p.follower.do("GET", wait, ""))
}

func TestWaitForAnLSNEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end func(*rig)
		tag string
	}{
		"leadership": {func(g *rig) { g.node.rescan(func(f *fakeNode) { f.lead = false }) }, v1.TagNotLeader},
		"server":     {func(g *rig) { g.end() }, v1.TagClosing},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			waiting := g.later(t.Context(), "GET", "/v1/lsn/3-1/wait?level=object&waitMs=60000")
			eventually(t, "it waits", g.flushing(1))
			tc.end(g)
			refused(t, <-waiting, http.StatusServiceUnavailable, tc.tag)
		})
	}
}

// Every read of the queue can be asked for a state that is new enough, on every
// node: by the leader's word or by an LSN.
func TestEveryReadKnowsMinLSN(t *testing.T) {
	g := newExampleRig(t, func(c *core.Config) { c.Timeouts.Fresh = 10 * time.Millisecond })
	at := g.node.View().LSN().String()
	g.node.set(func(f *fakeNode) { f.leader, f.lead = "", false }) // a follower without anybody to ask
	reads := 0
	for _, s := range samples() {
		if s.method != http.MethodGet || !strings.HasPrefix(s.template, "/v1/") && s.template != v1.PathState ||
			s.template == v1.PathEvents || s.template == core.PathLSNWait || s.template == frame.Path ||
			s.template == core.ByID(v1.PathJobs)+"/"+v1.ActionLogs || // of the leader's memory
			s.template == v1.PathHistory || // counts of the node itself
			s.template == v1.PathPast || // of the bucket
			s.template == v1.PathAudit || s.template == v1.PathSelf { // the rights of the caller
			continue
		}
		reads++
		if !s.read {
			t.Errorf("%s cannot be asked to be fresh", s.name)
		}
		p := refused(t, g.do("GET", s.target+"?minLsn=9-9&waitMs=1", ""), http.StatusGatewayTimeout, v1.TagTimeout)
		if !strings.Contains(p.Detail, "9-9") {
			t.Errorf("%s: %s", s.name, p.Detail)
		}
		if a := g.do("GET", s.target+"?minLsn="+at, ""); a.status != http.StatusOK {
			t.Errorf("%s: answered %d %s", s.name, a.status, a.body)
		}
	}
	if reads < 12 {
		t.Errorf("only %d reads", reads)
	}
}
