package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
)

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
