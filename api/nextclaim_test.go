package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
)

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
