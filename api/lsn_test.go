package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/cluster/leader"
	"osqueue/storage"
)

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
