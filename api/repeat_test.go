package api

import (
	"bytes"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// A change of one id that is sent again answers the same bytes, and one that did
// nothing can be sent again with its key.
func TestRepeatedChangeOfOne(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.submit("b", "t")
	key := []string{v1.HeaderIdempotencyKey, "k1"}
	first := g.do("POST", v1.PathCancel, `{"ids":["a"]}`, key...)
	again := g.do("POST", v1.PathCancel, `{"ids":["a"]}`, key...)
	if first.status != 200 || again.status != 200 || !bytes.Equal(first.body, again.body) || again.header.Get(v1.HeaderReplayed) != "true" {
		t.Errorf("%d %s, then %d %s", first.status, first.body, again.status, again.body)
	}
	key[1] = "k2"
	if a := g.do("POST", v1.PathCancel, `{"ids":["late"]}`, key...); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.submit("late", "t")
	a := g.do("POST", v1.PathCancel, `{"ids":["late"]}`, key...)
	if ok[v1.Changed](t, a).Count != 1 {
		t.Errorf("the job was not there when the key was used first: %s", a.body)
	}
}

// A cron needs a job; a read that waits for nothing is no timeout.
func TestNothingIsNoDefault(t *testing.T) {
	g := newRig(t)
	for _, body := range []string{`{"spec":"@daily"}`, `{"spec":"@daily","job":null}`} {
		refused(t, g.do("PUT", v1.PathCrons+"/c", body), 400, v1.TagBadRequest)
	}
	refused(t, g.do("GET", "/v1/jobs?limit=1&limit=abc", ""), 400, v1.TagBadRequest)
	refused(t, g.do("POST", "/v1/jobs?bogus=1", "{}", "Prefer", v1.PreferStrict), 400, v1.TagUnknownMember)
	for _, path := range []string{"/v1/stats?waitMs=0", "/v1/jobs?waitMs=0", "/v1/workers?waitMs=0"} {
		if a := g.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// A registered worker that waits for a job counts as alive.
func TestWaitingWorkerLives(t *testing.T) {
	g := newRig(t)
	settings := g.node.View().Meta().Settings
	settings.WorkerTimeoutMs = 1
	g.useSettings(settings)
	if a := g.do("POST", v1.PathWorkers, `{"name":"w"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	before := g.node.View().LSN()
	g.do("POST", v1.PathClaim, `{"workerId":"w","waitMs":700}`)
	if after := g.node.View().LSN(); after == before {
		t.Errorf("nothing was heard of the worker for %s", 700*time.Millisecond)
	}
}
