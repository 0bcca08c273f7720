package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

func TestWorkersAndTheirJobs(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.WorkerJobs = 2 })
	for _, name := range []string{"w", "v", "w/2"} {
		ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers", `{"name":"`+name+`"}`))
	}
	for i := range 3 {
		g.submit(fmt.Sprintf("j%d", i), "t")
		g.claim1()
	}
	out := ok[v1.Worker](t, g.do("GET", "/v1/workers/w", ""))
	if out.Running != 3 || fmt.Sprint(out.JobIDs) != "[j0 j1]" || out.Name != "w" || out.RegisteredAt != startMs {
		t.Fatalf("got %+v", out)
	}
	if out := ok[v1.Worker](t, g.do("GET", "/v1/workers/w%2F2", "")); out.Name != "w/2" || out.Running != 0 || out.JobIDs != nil {
		t.Fatalf("got %+v", out)
	}
	p := refused(t, g.do("GET", "/v1/workers/x", ""), http.StatusNotFound, v1.TagNotFound)
	if !strings.Contains(p.Title, "worker") {
		t.Fatalf("problem %+v", p)
	}
	list := ok[v1.WorkerList](t, g.do("GET", "/v1/workers", ""))
	if len(list.Workers) != 3 || list.Workers[1].Running != 3 || list.Workers[1].JobIDs != nil || list.NextCursor != "" {
		t.Fatalf("got %+v", list)
	}
}

func TestWorkerPages(t *testing.T) {
	g := newRig(t)
	for i := range 5 {
		ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers", fmt.Sprintf(`{"name":"w%d"}`, i)))
	}
	var names []string
	query := "?limit=2"
	for range 9 {
		out := ok[v1.WorkerList](t, g.do("GET", "/v1/workers"+query, ""))
		for _, w := range out.Workers {
			names = append(names, w.Name)
		}
		if out.NextCursor == "" {
			break
		}
		query = "?limit=2&cursor=" + out.NextCursor
		// A worker that was removed does not invalidate a cursor.
		ok[v1.WorkerAnswer](t, g.do("DELETE", "/v1/workers/"+names[len(names)-1], ""))
	}
	if fmt.Sprint(names) != "[w0 w1 w2 w3 w4]" {
		t.Fatalf("got %v", names)
	}
	for _, query := range []string{"?limit=-1", "?cursor=%21", "?cursor=AQM"} {
		refused(t, g.do("GET", "/v1/workers"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}

// A quiet worker's claims find no job, and wait until it is not quiet any more.
func TestQuietWorker(t *testing.T) {
	g := newRig(t)
	ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers", `{"name":"w","capacity":4}`))
	g.submit("a", "t")
	ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers/w/quiet", ""))
	refused(t, g.do("POST", "/v1/workers/x/quiet", ""), http.StatusNotFound, v1.TagNotFound)
	before := g.node.written()
	if a := g.do("POST", "/v1/jobs/claim", `{"workerId":"w","waitMs":50}`); string(a.body) != "{}" {
		t.Fatalf("a quiet worker got %s", a.body)
	}
	if n := g.node.written(); n != before {
		t.Errorf("its claim wrote %d mutations", n-before)
	}
	w := ok[v1.Worker](t, g.do("GET", "/v1/workers/w", ""))
	if w.Capacity != 4 || w.QuietSince != startMs || w.GoneAt != 0 {
		t.Errorf("%+v", w)
	}
	waiting := make(chan answer)
	go func() { waiting <- g.do("POST", "/v1/jobs/claim", `{"workerId":"w","waitMs":20000}`) }()
	ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers/w/unquiet", ""))
	if a := <-waiting; !strings.Contains(string(a.body), `"jobId":"a"`) {
		t.Errorf("the waiting claim got %s", a.body)
	}
}
