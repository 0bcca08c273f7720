package api

import (
	"net/http"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster/leader"
)

// A claim that was woken for a job which another claim got continues to wait.
func TestClaimThatLostTheRace(t *testing.T) {
	g := newRig(t)
	const n = 8
	var waiting []<-chan answer
	for range n {
		waiting = append(waiting, g.later("POST", "/v1/jobs/claim", `{"waitMs":60000,"max":1}`))
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
