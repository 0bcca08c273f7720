package api

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/leader"
)

// A claim that was woken for a job which another claim got continues to wait.
func TestClaimThatLostTheRace(t *testing.T) {
	g := newRig(t)
	const n = 8
	var waiting []<-chan answer
	for range n {
		out := make(chan answer, 1)
		go func() { out <- g.do("POST", "/v1/jobs/claim", `{"waitMs":60000,"max":1}`) }()
		waiting = append(waiting, out)
	}
	eventually(t, "all sleep", g.asleep(n))
	for i := range n {
		g.submit(string(rune('a'+i)), "")
	}
	seen := map[string]bool{}
	for _, w := range waiting {
		out := ok[v1.Claimed](t, <-w)
		if len(out.Jobs) != 1 || seen[out.Jobs[0].JobID] {
			t.Fatalf("got %+v", out)
		}
		seen[out.Jobs[0].JobID] = true
	}
}

// A claim is not answered as empty while no client could claim a job.
func TestClaimWhileWritesAreRefused(t *testing.T) {
	g := newRig(t)
	lag := &leader.FlushLagError{Lag: time.Hour, Max: time.Minute}
	g.node.set(func(f *fakeNode) { f.proposeErr = lag })
	for _, body := range []string{`{}`, `{"types":[""]}`, `{"types":["t"],"waitMs":60000}`, `{"workerId":"w","requestId":"r"}`} {
		p := refused(t, g.do("POST", "/v1/jobs/claim", body), http.StatusServiceUnavailable, v1.TagFlushLag)
		if p.Detail != lag.Error() || p.Committed != v1.CommittedNo {
			t.Errorf("%s: %+v", body, p)
		}
	}
	g.node.set(func(f *fakeNode) { f.proposeErr = nil })
	sameJSON(t, g.do("POST", "/v1/jobs/claim", `{}`).body, `{}`)
}

// While only reports are accepted, a report that carries a claim is accepted too.
func TestAReportPassesWithoutItsClaim(t *testing.T) {
	for _, why := range []error{cluster.ErrFlushLag, cluster.ErrOverloaded} {
		g := newRig(t)
		g.submit("a", "t")
		g.submit("b", "t")
		j := g.claim1()
		g.node.set(func(f *fakeNode) { f.proposeErr, f.reportsPass = why, true })
		a := g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"workerId":"w","token":%d,"claim":{"requestId":"r"}}`, j.Token))
		if out := ok[v1.Reported](t, a); out.Status != v1.StatusCompleted || len(out.Claimed) != 0 {
			t.Fatalf("%v: got %s", why, a.body)
		}
	}
}
