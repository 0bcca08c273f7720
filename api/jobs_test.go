package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
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
