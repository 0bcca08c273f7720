package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/leader"
	"osqueue/fsm"
)

func TestClaimWithoutMaxIsTheOldShape(t *testing.T) {
	g := newRig(t)
	a := g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`)
	sameJSON(t, a.body, `{}`)
	if n := g.node.written(); n != 0 {
		t.Fatalf("an empty claim wrote %d mutations", n)
	}
	g.submit("a", "t")
	a = g.do("POST", "/v1/jobs/claim", `{"workerId":"w","leaseMs":700}`)
	sameJSON(t, a.body, `{"jobId":"a","type":"t","payload":{"n":1},"attempts":1,"token":4294967297,"leaseMs":700,`+
		`"createdAt":1700000000000,"lsn":"3-3"}`)
	if a.header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Fatalf("content type %q", a.header.Get("Content-Type"))
	}
}

func TestClaimMany(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.ClaimJobs = 2 })
	sameJSON(t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","max":3}`).body, `{"jobs":[]}`)
	for _, id := range []string{"a", "b", "c"} {
		g.submit(id, "t")
	}
	out := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","max":3}`))
	if len(out.Jobs) != 2 || out.Jobs[0].JobID != "a" || out.Jobs[1].JobID != "b" || out.LSN == "" || out.Jobs[0].LSN != "" {
		t.Fatalf("got %+v", out)
	}
	refused(t, g.do("POST", "/v1/jobs/claim", `{"max":0}`), http.StatusBadRequest, v1.TagBadRequest)
}

func TestClaimTypes(t *testing.T) {
	g := newRig(t)
	g.submit("none", "")
	g.submit("mail", "mail")
	for _, body := range []string{`{"types":[""]}`, `{"types":["",""],"max":1}`, `{"types":["nope"]}`, `{"types":["Mail"]}`} {
		if a := g.do("POST", "/v1/jobs/claim", body); strings.Contains(string(a.body), "jobId") {
			t.Errorf("%s got %s", body, a.body)
		}
	}
	got := ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"types":["mail","mail",""]}`))
	if got.JobID != "mail" {
		t.Fatalf("got %+v", got)
	}
	if got := ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"types":null}`)); got.JobID != "none" {
		t.Fatalf("got %+v", got)
	}
}

func TestClaimAnonymous(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{}`))
	if w := g.node.Job("a").Execution().Worker; w != fsm.Anonymous {
		t.Fatalf("worker %q", w)
	}
	if a := g.do("GET", "/v1/jobs/a", ""); strings.Contains(string(a.body), "workerId") {
		t.Fatalf("shown %s", a.body)
	}
	for _, body := range []string{`{"workerId":"w"}`, `{"workerId":""}`} {
		g.do("POST", "/v1/jobs/a/complete", body)
		if got := g.node.Job("a").Status; got != fsm.InProgress {
			t.Fatalf("after %s: %s", body, got)
		}
	}
	if a := g.do("POST", "/v1/jobs/a/complete", `{}`); a.status != http.StatusNoContent || g.node.Job("a").Status != fsm.Completed {
		t.Fatalf("answered %d, job %s", a.status, g.node.Job("a").Status)
	}
}

func TestClaimAgain(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	const body = `{"workerId":"w","requestId":"r1","max":5}`
	first := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", body))
	again := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", body)) // nothing is ready now
	if len(again.Jobs) != 1 || again.Jobs[0].Token != first.Jobs[0].Token {
		t.Fatalf("got %+v, then %+v", first, again)
	}
	g.do("POST", "/v1/jobs/a/complete", `{"workerId":"w"}`)
	// The claim holds nothing any more: an answer, though it may wait.
	if a := g.do("POST", "/v1/jobs/claim", `{"workerId":"w","requestId":"r1","max":5,"waitMs":60000}`); len(
		ok[v1.Claimed](t, a).Jobs) != 0 {
		t.Fatalf("got %s", a.body)
	}
	before := g.node.written()
	g.do("POST", "/v1/jobs/claim", `{"workerId":"w","requestId":"fresh","max":5}`)
	if g.node.written() != before {
		t.Fatal("an empty claim with a request id wrote to the log")
	}
	refused(t, g.do("POST", "/v1/jobs/claim", `{"requestId":"r1"}`), http.StatusBadRequest, v1.TagBadRequest)
}

// A repeated claim returns the age of its leases: since the claim, the last heartbeat, or a
// takeover, which restarts them at their full length.
func TestAgeOfLeases(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	const body = `{"workerId":"w","requestId":"r1","max":5,"leaseMs":10000}`
	again := func(want int64) {
		t.Helper()
		jobs := ok[v1.Claimed](t, g.do("POST", v1.PathClaim, body)).Jobs
		if len(jobs) != 1 || jobs[0].LeaseAgeMs != want || jobs[0].LeaseMs != 10000 {
			t.Errorf("%+v, want it %d ms old", jobs, want)
		}
	}
	again(0)
	g.node.tick(4 * time.Second)
	again(4000)
	if a := g.do("POST", "/v1/jobs/a/heartbeat", `{"workerId":"w"}`); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	again(0)
	g.node.tick(3 * time.Second)
	again(3000)
	g.useSettings(g.node.View().Meta().Settings) // a takeover
	again(0)
	g.node.tick(2 * time.Second)
	again(2000)
	g.node.tick(10 * time.Second) // the lease has ended
	if jobs := ok[v1.Claimed](t, g.do("POST", v1.PathClaim, body)).Jobs; len(jobs) != 0 {
		t.Errorf("%+v", jobs)
	}
}

// The age counts when the answer is sent, not before the wait for the bucket, and
// also for a claim that is repeated by its idempotency key.
func TestAgeOfLeasesInTheEnd(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	const path, body = v1.PathClaim + "?ack=object", `{"max":5,"leaseMs":60000}`
	claim := func() answer { return g.do("POST", path, body, v1.HeaderIdempotencyKey, "k") }
	out := make(chan answer, 1)
	go func() { out <- claim() }()
	eventually(t, "the wait for the bucket", g.flushing(1))
	g.node.tick(1500 * time.Millisecond)
	g.node.flush()
	first := <-out
	g.node.tick(1500 * time.Millisecond)
	for want, a := range map[int64]answer{1500: first, 3000: claim()} {
		jobs := ok[v1.Claimed](t, a).Jobs
		if len(jobs) != 1 || jobs[0].LeaseAgeMs != want {
			t.Errorf("%+v, want it %d ms old", jobs, want)
		}
	}
}

// claimLater claims in the background.
func (g *rig) claimLater(ctx context.Context, body string) <-chan answer {
	out := make(chan answer, 1)
	go func() { out <- g.send(request("POST", "/v1/jobs/claim", body).WithContext(ctx)) }()
	return out
}

func (g *rig) asleep(n int) func() bool {
	return func() bool {
		g.node.mu.Lock()
		defer g.node.mu.Unlock()
		return g.node.sleeping == n
	}
}

func TestClaimWaits(t *testing.T) {
	g := newRig(t)
	waiting := g.claimLater(t.Context(), `{"workerId":"w","types":["t"],"waitMs":60000,"max":1}`)
	eventually(t, "the claim sleeps", g.asleep(1))
	g.submit("other", "u")
	if n := g.node.written(); n != 1 {
		t.Fatalf("%d writes", n)
	}
	g.submit("a", "t")
	if out := ok[v1.Claimed](t, <-waiting); len(out.Jobs) != 1 || out.Jobs[0].JobID != "a" {
		t.Fatalf("got %+v", out)
	}
}

func TestClaimWaitEnds(t *testing.T) {
	t.Run("time", func(t *testing.T) {
		g := newRig(t)
		sameJSON(t, g.do("POST", "/v1/jobs/claim", `{"waitMs":20}`).body, `{}`)
		sameJSON(t, g.do("POST", "/v1/jobs/claim", `{"types":[""],"waitMs":20,"max":1}`).body, `{"jobs":[]}`)
	})
	t.Run("limit", func(t *testing.T) {
		g := newRig(t, func(c *core.Config) { c.Timeouts.Wait = 20 * time.Millisecond })
		sameJSON(t, g.do("POST", "/v1/jobs/claim", `{"waitMs":9223372036854775807}`).body, `{}`)
	})
	t.Run("client", func(t *testing.T) {
		g := newRig(t)
		ctx, leave := context.WithCancel(t.Context())
		waiting := g.claimLater(ctx, `{"waitMs":60000}`)
		eventually(t, "the claim sleeps", g.asleep(1))
		leave()
		<-waiting
		if !g.asleep(0)() {
			t.Fatal("it sleeps on")
		}
	})
	t.Run("server", func(t *testing.T) {
		g := newRig(t)
		waiting := g.claimLater(t.Context(), `{"waitMs":60000}`)
		nothing := g.claimLater(t.Context(), `{"waitMs":60000,"types":[""]}`)
		eventually(t, "the claim sleeps", g.asleep(1))
		g.end()
		p := refused(t, <-waiting, http.StatusServiceUnavailable, v1.TagClosing)
		if p.Committed != v1.CommittedNo {
			t.Fatalf("committed %q", p.Committed)
		}
		refused(t, <-nothing, http.StatusServiceUnavailable, v1.TagClosing)
	})
	t.Run("leadership", func(t *testing.T) {
		g := newRig(t)
		waiting := g.claimLater(t.Context(), `{"waitMs":60000}`)
		eventually(t, "the claim sleeps", g.asleep(1))
		g.node.set(func(f *fakeNode) { f.lead = false })
		_, _, _ = g.node.apply()
		refused(t, <-waiting, http.StatusServiceUnavailable, v1.TagNotLeader)
	})
}

// A claim that was woken for a job which another claim got continues to wait.
func TestClaimThatLostTheRace(t *testing.T) {
	g := newRig(t)
	const n = 8
	var waiting []<-chan answer
	for range n {
		waiting = append(waiting, g.claimLater(t.Context(), `{"waitMs":60000,"max":1}`))
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

func TestClaimFails(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.node.set(func(f *fakeNode) { f.proposeErr = cluster.ErrUnknown })
	p := refused(t, g.do("POST", "/v1/jobs/claim", `{}`), http.StatusServiceUnavailable, v1.TagUnknownOutcome)
	if p.Committed != v1.CommittedUnknown {
		t.Fatalf("committed %q", p.Committed)
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

// A claim that the backend commits with the enqueue is answered like any other: with its
// lease, the LSN of the entry, and the same answer when it is repeated.
func TestAClaimThatIsHandedOver(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		header []string
	}{
		"a request id":       {`{"workerId":"w","types":["t"],"waitMs":60000,"max":3,"requestId":"r"}`, nil},
		"an idempotency key": {`{"workerId":"w","types":["t"],"waitMs":60000,"max":3}`, []string{v1.HeaderIdempotencyKey, "k"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.node.set(func(f *fakeNode) { f.handOver = true })
			out := make(chan answer, 1)
			go func() { out <- g.do("POST", "/v1/jobs/claim", c.body, c.header...) }()
			eventually(t, "the claim sleeps", g.asleep(1))
			g.submit("a", "t")
			first := ok[v1.Claimed](t, <-out)
			if len(first.Jobs) != 1 || first.Jobs[0].JobID != "a" || first.LSN == "" {
				t.Fatalf("got %+v", first)
			}
			again := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", c.body, c.header...))
			if len(again.Jobs) != 1 || again.Jobs[0].Token != first.Jobs[0].Token {
				t.Fatalf("got %+v, then %+v", first, again)
			}
			ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, first.Jobs[0].Token)))
			if left := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", c.body, c.header...)); len(left.Jobs) != 0 {
				t.Fatalf("a claim whose jobs are completed got %+v", left)
			}
		})
	}
}

// claimed returns the ids of claimed jobs.
func claimed(jobs []v1.ClaimedJob) string {
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.JobID)
	}
	return strings.Join(ids, " ")
}

// A report and the next claim are one entry, and both are repeatable.
func TestAReportCarriesTheNextClaim(t *testing.T) {
	g := newRig(t)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		g.submit(id, "t")
	}
	one := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","max":1}`)).Jobs[0]
	before := g.node.entriesSoFar()
	body := fmt.Sprintf(`{"workerId":"w","token":%d,"result":1,"claim":{"requestId":"r1","types":["t"],"max":2,"leaseMs":700}}`, one.Token)
	got := ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", body))
	if got.Status != v1.StatusCompleted || claimed(got.Claimed) != "b c" || got.Claimed[0].LeaseMs != 700 {
		t.Fatalf("got %+v", got)
	}
	if n := g.node.entriesSoFar() - before; n != 1 {
		t.Fatalf("%d entries, want 1", n)
	}
	again := ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", body))
	if !again.Duplicate || claimed(again.Claimed) != "b c" || again.Claimed[0].Token != got.Claimed[0].Token {
		t.Fatalf("repeated: %+v", again)
	}
	batch := fmt.Sprintf(`{"workerId":"w","jobs":[{"jobId":"b","token":%d},{"jobId":"c","token":1}],"claim":{"requestId":"r2"}}`,
		got.Claimed[0].Token)
	for range 2 {
		a := g.do("POST", "/v1/jobs/complete", batch, v1.HeaderIdempotencyKey, "k")
		out := ok[v1.ReportedBatch](t, a)
		if claimed(out.Claimed) != "d" || out.Results[0].Status != v1.ItemOK || out.Results[1].Status != v1.TagStaleToken {
			t.Fatalf("got %s", a.body)
		}
	}
	failing := fmt.Sprintf(`{"workerId":"w","token":%d,"retryable":false,"claim":{"requestId":"r3"}}`, got.Claimed[1].Token)
	if out := ok[v1.Reported](t, g.do("POST", "/v1/jobs/c/fail", failing)); out.Status != v1.StatusDead || claimed(out.Claimed) != "e" {
		t.Fatalf("got %+v", out)
	}
}

// A claim that would find nothing costs nothing, and the answer says that there was one.
func TestANextClaimWithoutJobs(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	j := g.claim1()
	a := g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"workerId":"w","token":%d,"claim":{"requestId":"r"}}`, j.Token))
	if ok[v1.Reported](t, a); !strings.Contains(string(a.body), `"claimed":[]`) {
		t.Fatalf("got %s", a.body)
	}
}

// If the report is refused, the claim takes place nevertheless, and a claim with the same id
// returns its jobs.
func TestANextClaimOfARefusedReport(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	body := `{"workerId":"w","token":1,"claim":{"requestId":"r"}}`
	refused(t, g.do("POST", "/v1/jobs/none/complete", body), http.StatusNotFound, v1.TagNotFound)
	out := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","requestId":"r","max":1}`))
	if claimed(out.Jobs) != "a" || g.node.Job("a").Attempts != 1 {
		t.Fatalf("got %+v", out)
	}
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

func TestInvalidNextClaims(t *testing.T) {
	g := newRig(t)
	for _, body := range []string{
		`{"workerId":"w","token":1,"claim":{}}`,
		`{"token":1,"claim":{"requestId":"r"}}`,
		`{"workerId":"w","token":1,"claim":{"requestId":"r","max":0}}`,
		`{"workerId":"w","token":1,"claim":{"requestId":"r","leaseMs":-1}}`,
	} {
		p := refused(t, g.do("POST", "/v1/jobs/a/complete", body), http.StatusBadRequest, v1.TagBadRequest)
		if !strings.Contains(p.Detail, "claim") {
			t.Errorf("%s: %s", body, p.Detail)
		}
	}
	if n := g.node.written(); n != 0 {
		t.Fatalf("%d mutations were written", n)
	}
}

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
