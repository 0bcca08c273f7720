package api

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
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

func (g *rig) graph(path string) v1.Graph {
	g.t.Helper()
	return ok[v1.Graph](g.t, g.do("GET", path, ""))
}

// shape writes a graph in lines: the jobs with their depth and status, then the edges.
func shape(g v1.Graph) string {
	var b strings.Builder
	for _, j := range g.Jobs {
		fmt.Fprintf(&b, "%s %d %s", j.ID, j.Depth, j.Status)
		if j.Planned {
			b.WriteString(" planned")
		}
		if j.More {
			b.WriteString(" more")
		}
		b.WriteString("\n")
	}
	var edges []string
	for _, e := range g.Edges {
		text := fmt.Sprintf("%s %s %s", e.Kind, e.From, e.To)
		if e.Waiting {
			text += " waits"
		}
		edges = append(edges, text)
	}
	slices.Sort(edges)
	return b.String() + strings.Join(edges, "\n")
}

func TestJobGraph(t *testing.T) {
	g := newRig(t)
	for _, body := range []string{
		`{"id":"a","type":"t"}`, `{"id":"b","type":"t"}`, `{"id":"c","type":"t","after":["a","b"]}`,
		`{"id":"d","type":"t","after":["c"]}`, `{"id":"other","type":"t"}`, `{"id":"e","type":"t","after":["d","other"]}`,
		`{"id":"beside","type":"t","after":["a"]}`,
	} {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body))
	}
	ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"n","jobs":[{"id":"f","type":"t","after":["d"]}],"callback":{"id":"done","type":"u"}}`))
	g.finish(1) // a
	want := strings.Join([]string{
		"a -1 completed", "b -1 unclaimed", "c 0 blocked", "d 1 blocked", "e 2 blocked more", "f 2 blocked", "done 4  planned",
		"after a c", "after b c waits", "after c d waits", "after d e waits", "after d f waits", "batch f n", "callback n done waits",
	}, "\n")
	all := g.graph("/v1/jobs/c/graph")
	if got := shape(all); got != want || all.Cut || all.JobID != "c" || all.LSN == "" || len(all.Batches) != 1 || all.Batches[0].Total != 1 {
		t.Errorf("got\n%s\nwant\n%s\n%+v", got, want, all)
	}
	// The nearest jobs come first.
	few := g.graph("/v1/jobs/c/graph?limit=3")
	if got := shape(few); !few.Cut || got != "a -1 completed\nb -1 unclaimed\nc 0 blocked more\nafter a c\nafter b c waits" {
		t.Errorf("got\n%s", got)
	}
	refused(t, g.do("GET", "/v1/jobs/none/graph", ""), http.StatusNotFound, v1.TagNotFound)
	refused(t, g.do("GET", "/v1/jobs/c/graph?limit=0", ""), http.StatusBadRequest, v1.TagBadRequest)
	ok[v1.Reported](t, g.do("DELETE", "/v1/jobs/b", ""))
	if got := shape(g.graph("/v1/jobs/c/graph?limit=3")); !strings.HasPrefix(got, "a -1 completed\nb -1 \n") {
		t.Errorf("after b was removed:\n%s", got)
	}
}

// A job with many jobs behind it costs no more than the limit.
func TestJobGraphIsBounded(t *testing.T) {
	g := newRig(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"root","type":"t"}`))
	var jobs []string
	for i := range 900 {
		jobs = append(jobs, fmt.Sprintf(`{"id":"j%d","type":"t","after":["root"]}`, i))
	}
	g.do("POST", "/v1/jobs/batch", `{"jobs":[`+strings.Join(jobs, ",")+`]}`)
	if got := g.graph("/v1/jobs/root/graph?limit=50"); len(got.Jobs) != 50 || len(got.Edges) != 49 || !got.Cut {
		t.Errorf("%d jobs, %d edges, cut %v", len(got.Jobs), len(got.Edges), got.Cut)
	}
}

// A token that is limited to some types sees no more of the other jobs than their ids in
// the jobs that it may read.
func TestJobGraphInAScope(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"t"}})
	for _, body := range []string{
		`{"id":"secret","type":"u"}`, `{"id":"mine","type":"t","after":["secret"]}`, `{"id":"behind","type":"u","after":["mine"]}`,
	} {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body, admin...))
	}
	got := shape(ok[v1.Graph](t, g.do("GET", "/v1/jobs/mine/graph", "", reader...)))
	if want := "secret -1 \nmine 0 blocked more\nafter secret mine waits"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	refused(t, g.do("GET", "/v1/jobs/secret/graph", "", reader...), http.StatusNotFound, v1.TagNotFound)
	ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"b","jobs":[{"id":"part","type":"t"}],"callback":{"id":"end","type":"u"}}`, admin...))
	planned := ok[v1.Graph](t, g.do("GET", "/v1/jobs/part/graph", "", reader...))
	if n := planned.Jobs[len(planned.Jobs)-1]; n.ID != "end" || !n.Planned || n.Type != "" {
		t.Errorf("the callback that is planned: %+v", n)
	}
}

// A token that is limited to some types reads the history of these alone, and not the jobs without type,
// which have a name of their own in lists.
func TestHistoryAndUntypedJobsInAScope(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	for _, body := range []string{`{"id":"untyped"}`, `{"id":"typed","type":"mine"}`, `{"id":"tilde","type":"~"}`} {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body, admin...))
	}
	for query, want := range map[string]string{"~": "untyped", "~~": "tilde", "mine": "typed"} {
		list := ok[v1.JobList](t, g.do("GET", "/v1/jobs?type="+query, "", admin...))
		if len(list.Jobs) != 1 || list.Jobs[0].ID != want {
			t.Errorf("type %s: %+v", query, list.Jobs)
		}
	}
	for _, limit := range []string{"mine", "~"} {
		reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{limit}})
		for _, path := range []string{"/v1/jobs", "/v1/stats/jobs", "/v1/stats/history"} {
			ok[map[string]any](t, g.do("GET", path+"?type="+v1.QueueName(limit), "", reader...))
			for _, other := range []string{"", "?type=", "?type=~", "?type=other"} {
				refused(t, g.do("GET", path+other, "", reader...), http.StatusForbidden, v1.TagForbidden)
			}
		}
	}
}

// The figures in a list are those of the listed type for a token that is limited to types.
func TestFiguresInAScope(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"mine"}})
	for _, body := range []string{`{"type":"other"}`, `{"type":"other"}`, `{"type":"mine"}`} {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body, admin...))
	}
	if got := ok[v1.JobList](t, g.do("GET", "/v1/jobs?type=mine", "", admin...)); got.Unclaimed < 3 || len(got.Jobs) != 1 {
		t.Errorf("an admin sees %+v", got.Stats)
	}
	got := ok[v1.JobList](t, g.do("GET", "/v1/jobs?type=mine", "", reader...))
	want := v1.Stats{Total: 1, Unclaimed: 1, Bytes: got.Bytes, LSN: got.LSN}
	if !reflect.DeepEqual(got.Stats, want) || len(got.Jobs) != 1 {
		t.Errorf("%+v, want %+v", got.Stats, want)
	}
}
