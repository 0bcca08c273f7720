package api

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster/leader"
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

// A schedule that fires between the computation of its next time and the write of a PUT or a
// resume gets a later time; only if it does so each time does the client have to repeat the
// request.
func TestCronThatFiresDuringAWrite(t *testing.T) {
	g := newRig(t)
	times := 0
	fireFirst := func(n int) {
		times = n
		g.node.overtake = func() {
			if times--; times >= 0 {
				g.node.now = g.node.View().Cron("c").NextAtMs
				g.fire("c")
			}
		}
	}
	put := func(spec string) string { return `{"spec":"` + spec + `","job":{}}` }
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", put("* * * * *")))
	for i, spec := range []string{"*/1 * * * *", "0-59 * * * *"} {
		fireFirst(1 + i)
		before := g.cron("c").NextAt
		got := ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", put(spec)))
		if want := before + int64(1+i)*60_000; got.NextAt != want || g.cron("c").Spec != spec {
			t.Errorf("%s: the next time is %d, want %d; %+v", spec, got.NextAt, want, g.cron("c"))
		}
	}
	fireFirst(3)
	refused(t, g.do("PUT", "/v1/crons/c", put("* * * * *")), http.StatusServiceUnavailable, v1.TagOverloaded)
}

// The name of a type in a path is read as that type.
func TestNamesOfTypes(t *testing.T) {
	for _, jobType := range []string{"", "~", "~~", "~a", "a", "a~", "a/b c%"} {
		if read, known := v1.QueueType(v1.QueueName(jobType)); read != jobType || !known {
			t.Errorf("%q is read as %q", v1.QueueName(jobType), read)
		}
	}
}

func TestTooManyQueues(t *testing.T) {
	g := newRig(t)
	g.fillQueues()
	p := refused(t, g.do("POST", "/v1/queues/t/pause", ""), http.StatusInsufficientStorage, v1.TagTooManyQueues)
	if p.Committed != v1.CommittedNo {
		t.Fatalf("problem %+v", p)
	}
	ok[v1.Queue](t, g.do("POST", "/v1/queues/7/pause", ""))
	ok[v1.Done](t, g.do("DELETE", "/v1/queues/7", ""))
	ok[v1.Queue](t, g.do("POST", "/v1/queues/t/pause", ""))
}

// fillQueues gives settings to as many types as can have some.
func (g *rig) fillQueues() {
	g.t.Helper()
	ms := make([]*fsmpb.Mutation, 10_000)
	for i := range ms {
		ms[i] = setQueueOf(&fsmpb.SetQueue{Name: fmt.Sprint(i)})
	}
	if _, _, err := g.node.apply(ms...); err != nil {
		g.t.Fatal(err)
	}
}

// The old secret of a hook counts for a while after a rotation.
func TestRotatedSecretOfAHook(t *testing.T) {
	g := newRig(t)
	const body = `{"url":"https://example.com/","on":["job.dead"],"rotateSecret":`
	ok[v1.HookPut](t, g.do(http.MethodPut, "/v1/hooks/ops", body+`false}`))
	before := g.node.View().Hook("ops").Secret
	ok[v1.HookPut](t, g.do(http.MethodPut, "/v1/hooks/ops", body+`true}`))
	if h := g.node.View().Hook("ops"); !bytes.Equal(h.OldSecret, before) || h.OldUntilMs <= startMs {
		t.Errorf("the old secret is %+v until %d", h.OldSecret, h.OldUntilMs)
	}
}
