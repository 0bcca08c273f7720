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
