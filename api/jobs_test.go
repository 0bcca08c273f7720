package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

func TestListIsTheOldShape(t *testing.T) {
	g := newRig(t)
	sameJSON(t, g.do("GET", "/v1/jobs", "").body, `{"total":0,"unclaimed":0,"inProgress":0,"completedTotal":0,`+
		`"brokerAddress":"10.0.0.1:8080","scheduled":0,"completed":0,"dead":0,"cancelled":0,"blocked":0,"deadTotal":0,"cancelledTotal":0,"bytes":0,"workers":0,`+
		`"lsn":"3-1","jobs":[]}`)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a"}`))
	a := g.do("GET", "/v1/jobs", "")
	if want := `"jobs":[{"id":"a","status":"unclaimed","createdAt":1700000000000,"attempts":0,"maxAttempts":0,"heartbeat":0}]}`; !strings.HasSuffix(string(a.body), want) {
		t.Fatalf("got %s\nwant …%s", a.body, want)
	}
	if a.header.Get(v1.HeaderLSN) != "3-2" {
		t.Fatalf("lsn %q", a.header.Get(v1.HeaderLSN))
	}
}

// fill makes jobs in every status that can be reached.
func (g *rig) fill() {
	for i := range 3 {
		g.submit(fmt.Sprintf("done%d", i), "t")
	}
	for range 3 {
		j := g.claim1()
		g.do("POST", "/v1/jobs/"+j.JobID+"/complete", `{"workerId":"w","result":7}`)
	}
	g.submit("dead", "u")
	g.claim1()
	g.do("POST", "/v1/jobs/dead/fail", `{"workerId":"w","retryable":false,"error":"no"}`)
	g.submit("running", "t")
	g.claim1()
	g.submit("waiting", "u")
	g.do("POST", "/v1/jobs", `{"id":"later","type":"t","delayMs":1000}`)
}

func (g *rig) listed(query string) (ids []string, next string) {
	g.t.Helper()
	out := ok[v1.JobList](g.t, g.do("GET", "/v1/jobs"+query, ""))
	for _, j := range out.Jobs {
		ids = append(ids, j.ID)
	}
	return ids, out.NextCursor
}

func TestListFilters(t *testing.T) {
	g := newRig(t)
	g.fill()
	for query, want := range map[string]string{
		"":                              "[running waiting later]",
		"?status=all":                   "[done0 done1 done2 dead running waiting later]",
		"?status=completed":             "[done0 done1 done2]",
		"?status=dead,%20in_progress":   "[dead running]",
		"?status=dead,dead":             "[dead]",
		"?type=u":                       "[waiting]",
		"?type=u&status=all":            "[dead waiting]",
		"?status=cancelled":             "[]",
		"?type=&status=&limit=&cursor=": "[running waiting later]",
		"?type=nope&status=all&unknown": "[]",
	} {
		if ids, next := g.listed(query); fmt.Sprint(ids) != want || next != "" {
			t.Errorf("%s: %v, next %q, want %s", query, ids, next, want)
		}
	}
	for _, query := range []string{
		"?status=nope", "?status=dead,", "?limit=0", "?limit=-1", "?limit=x", "?cursor=!", "?cursor=AA", "?cursor=Ag",
		"?status=dead,dead,dead,dead,dead,dead,dead,dead", "?status=%zz",
	} {
		refused(t, g.do("GET", "/v1/jobs"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}

func TestListPages(t *testing.T) {
	g := newRig(t)
	g.fill()
	var all []string
	query, pages := "?status=all&limit=2", 0
	for {
		ids, next := g.listed(query)
		all, pages = append(all, ids...), pages+1
		if next == "" {
			break
		}
		query = "?status=all&limit=2&cursor=" + next
	}
	if fmt.Sprint(all) != "[done0 done1 done2 dead running waiting later]" || pages != 4 {
		t.Fatalf("%d pages: %v", pages, all)
	}
	// A page that ends where the list does has no next.
	if ids, next := g.listed("?status=all&limit=7"); len(ids) != 7 || next != "" {
		t.Fatalf("%v, next %q", ids, next)
	}
}

func TestListIsBounded(t *testing.T) {
	t.Run("scan", func(t *testing.T) {
		g := newRig(t, func(c *core.Config) { c.Limits.ListScan = 4 })
		g.fill()
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"grouped","group":"g"}`))
		ids, next := g.listed("?status=all&group=g")
		if len(ids) != 0 || next == "" {
			t.Fatalf("%v, next %q", ids, next)
		}
		if ids, next = g.listed("?status=all&group=g&cursor=" + next); fmt.Sprint(ids) != "[grouped]" || next != "" {
			t.Fatalf("%v, next %q", ids, next)
		}
		// Where there is an index nothing else is looked at.
		if ids, next = g.listed("?status=all&type=u"); fmt.Sprint(ids) != "[dead waiting]" || next != "" {
			t.Fatalf("%v, next %q", ids, next)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		g := newRig(t, func(c *core.Config) { c.Limits.ListBytes = 150 })
		g.fill()
		if ids, next := g.listed("?status=all"); len(ids) != 1 || next == "" {
			t.Fatalf("%v, next %q", ids, next)
		}
	})
	t.Run("jobs", func(t *testing.T) {
		g := newRig(t, func(c *core.Config) { c.Limits.ListJobs = 2 })
		g.fill()
		if ids, next := g.listed("?limit=100"); len(ids) != 2 || next == "" {
			t.Fatalf("%v, next %q", ids, next)
		}
	})
}

func TestShowJob(t *testing.T) {
	g := newRig(t)
	g.fill()
	sameJSON(t, g.do("GET", "/v1/jobs/dead", "").body, `{"id":"dead","status":"dead","payload":{"n":1},"type":"u",`+
		`"workerId":"w","createdAt":1700000000000,"attempts":1,"maxAttempts":0,"heartbeat":1700000000000,`+
		`"claimedAt":1700000000000,"finishedAt":1700000000000,"token":4294967300,"lastError":"no",`+
		`"history":[{"number":1,"startedAt":1700000000000,"endedAt":1700000000000,"workerId":"w","error":"no","end":"failed"}]}`)
	refused(t, g.do("GET", "/v1/jobs/nope", ""), http.StatusNotFound, v1.TagNotFound)
	refused(t, g.do("GET", "/v1/jobs/"+strings.Repeat("a", 1025), ""), http.StatusBadRequest, v1.TagBadRequest)
	if a := g.do("HEAD", "/v1/jobs/dead", ""); a.status != http.StatusOK {
		t.Fatalf("HEAD answered %d", a.status)
	}
}
