package queue

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestJobGet(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "x", Type: "bad", Payload: []byte(`{"a":1}`)})
	got := osq.Run(t, q, "", "job", "get", "x")
	for _, want := range []string{"id          x\n", "type        bad\n", "status      dead\n", "2023-11-14 22:13:20.000 UTC", "payload     {\"a\":1}\n", "no luck\n            at all"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
	if strings.Contains(got.Out, "result") || strings.Contains(got.Out, "heartbeat") {
		t.Errorf("what is unset is shown:\n%s", got.Out)
	}
	if got := osq.Run(t, q, "", "job", "get", "x", "--json"); !strings.HasPrefix(got.Out, `{"id":"x","status":"dead"`) {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "", "job", "get", "y"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "no such job") {
		t.Errorf("%+v", got)
	}
}

// The log of the attempt that completed a job stands behind its result.
func TestJobLog(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "x", Payload: []byte("7")})
	q.Jobs[0].Log = "one\nresult  \t8\n"
	if got := osq.Run(t, q, "", "job", "show", "x"); !strings.HasSuffix(got.Out, "result    7\nlog       one\n          result      8\n") {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "", "job", "show", "x", "--json"); !strings.Contains(got.Out, `"log":"one\nresult  \t8\n"`) {
		t.Errorf("%+v", got)
	}
}

func TestJobList(t *testing.T) {
	q := clitest.NewFake(t)
	for i := range 1203 {
		q.Add(v1.NewJob{ID: fmt.Sprintf("j%d", i), Type: []string{"good", "bad"}[i%2]})
	}
	ids := func(args ...string) (lines []string, notes string) {
		got := osq.Run(t, q, "", append([]string{"job", "list"}, args...)...)
		if got.Code != view.ExitOK {
			t.Fatalf("%+v", got)
		}
		return strings.Split(strings.TrimSpace(got.Out), "\n"), got.Err
	}
	lines, notes := ids()
	if len(lines) != 101 || !strings.HasPrefix(lines[1], "j0 ") || !strings.Contains(notes, "more jobs than 100") {
		t.Errorf("%d lines, %s", len(lines), notes)
	}
	if lines, notes = ids("--all"); len(lines) != 1204 || notes != "" {
		t.Errorf("%d lines, %s", len(lines), notes)
	}
	if lines, notes = ids("--status", "dead", "--type", "bad", "--limit", "2000", "--json"); len(lines) != 601 || notes != "" {
		t.Errorf("%d lines, %s", len(lines), notes)
	}
	if lines, notes = ids("--status", "unclaimed,scheduled"); len(lines) != 1 || notes != "" {
		t.Errorf("%v, %s", lines, notes)
	}
	if lines, _ = ids("--limit", "1203"); len(lines) != 1204 {
		t.Errorf("%d lines", len(lines))
	}
}

// aGraph has a job with two jobs before it, and behind it a batch with the id of a job.
var aGraph = v1.Graph{
	JobID: "c",
	Jobs: []v1.GraphJob{
		{ID: "a", Depth: -1, Status: v1.StatusCompleted, Type: "t"},
		{ID: "b", Depth: -1},
		{ID: "c", Status: v1.StatusInProgress, Type: "t", Percent: 40},
		{ID: "d\x1b[1m", Depth: 1, Status: v1.StatusBlocked, More: true},
		{ID: "e", Depth: 2, Planned: true, Type: `"u"`},
	},
	Batches: []v1.GraphBatch{{ID: "c", Total: 3, Completed: 1, Dead: 1}},
	Edges: []v1.GraphEdge{
		{Kind: v1.EdgeAfter, From: "a", To: "c"},
		{Kind: v1.EdgeAfter, From: "b", To: "c", Waiting: true},
		{Kind: v1.EdgeAfter, From: "c", To: "d\x1b[1m", Waiting: true},
		{Kind: v1.EdgeBatch, From: "c", To: "c"},
		{Kind: v1.EdgeCallback, From: "c", To: "e", Waiting: true},
	},
	Cut: true,
}

func TestGraphAsATree(t *testing.T) {
	const want = `a  completed  t
└─ c  running  t  40 %  *
   ├─ d\x1b[1m  blocked  …
   └─ batch c  2 of 3 jobs have ended
      └─ e  planned  "u"
b  (not in the queue, or not yours)
└─ c  running  t  40 %  *  (above)
… more jobs are not shown: give a larger --limit
`
	if got := treeText(&view.Globals{Out: io.Discard}, aGraph); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A tree that is wider than the terminal has short ids, so that the states are seen, and no line that
// is too long. With -o wide, and if it fits, it is whole.
func TestWideGraph(t *testing.T) {
	id := strings.Repeat("i", 60) + "-end"
	graph := v1.Graph{JobID: id, Jobs: []v1.GraphJob{
		{ID: id, Status: v1.StatusCompleted, Type: strings.Repeat("t", 30)},
		{ID: "b", Depth: 1, Status: v1.StatusBlocked},
	}, Edges: []v1.GraphEdge{{Kind: v1.EdgeAfter, From: id, To: "b"}}}
	text := func(width int, flags ...string) string {
		var out strings.Builder
		g := &view.Globals{Out: &out, Getenv: func(string) string { return "" }, Screen: func() (int, int, bool) { return width, 0, width > 0 }}
		show := &cobra.Command{Use: "show", RunE: func(*cobra.Command, []string) error { return view.Write(g.Out, treeText(g, graph)) }}
		if code := view.Execute(t.Context(), append([]string{"show"}, flags...), g, view.NewRoot(g, show)); code != view.ExitOK {
			t.Fatal(code)
		}
		return out.String()
	}
	whole := id + "  completed  " + strings.Repeat("t", 30) + "  *\n└─ b  blocked\n"
	for got, want := range map[string]string{
		text(0):                whole,
		text(120):              whole,
		text(80, "-o", "wide"): whole,
		text(80):               strings.Repeat("i", 20) + "…" + strings.Repeat("i", 15) + "-end  completed  " + strings.Repeat("t", 26) + "…\n└─ b  blocked\n",
	} {
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// The command and the dashboard know every kind of events.
func TestAllKindsOfEvents(t *testing.T) {
	source, err := os.ReadFile("../../../client/api/v1/wire.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../../api/ui/static/app.js")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`Event\w+ += "([a-z_.]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(kinds) < 30 {
		t.Fatalf("%d kinds in the source", len(kinds))
	}
	for _, m := range kinds {
		if m[1] == v1.EventGap {
			continue
		}
		if !slices.Contains(eventKinds, m[1]) {
			t.Errorf("the command does not know %s", m[1])
		}
		if !strings.Contains(string(script), `"`+m[1]+`"`) {
			t.Errorf("the dashboard does not know %s", m[1])
		}
	}
}

// TestHookTestSaysWhyNothingIsSent tests hooks that deliver nothing.
func TestHookTestSaysWhyNothingIsSent(t *testing.T) {
	t.Parallel()
	for hook, want := range map[string]string{
		`{"name":"h","paused":true,"failingSince":1000,"lastError":"refused"}`: "osqueue: hook h is paused: event evt_1-2.1 stays in the outbox until",
		`{"name":"h","failingSince":1000,"lastError":"refused"}`:               "event evt_1-2.1 is in the outbox and was not answered yet; hook h has failed since 1970-01-01",
		`{"name":"h"}`: "event evt_1-2.1 is in the outbox and was not answered yet: see osqueue hook show h",
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/hooks/h/test", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"evt_1-2.1"}`) })
		mux.HandleFunc("GET /v1/hooks/h", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, hook) })
		mux.HandleFunc("GET /v1/hooks/h/deliveries", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"attempts":[],"pending":[]}`) })
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		timeout := "--timeout=300ms"
		if strings.Contains(hook, "paused") {
			timeout = "--timeout=1m" // it is not waited for
		}
		if r := osq.Command(t, s.URL).Run("hook", "test", "h", timeout); r.Code != 1 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: exit %d\n%s%s", hook, r.Code, r.Out, r.Err)
		}
	}
}

// A hook that no event can reach is stored with a warning, and one that has delivered nothing is not called ok.
func TestHooksThatDeliverNothing(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/hooks/h", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"lsn":"1-2","warning":"no event can reach the URL: 10.0.0.1: the address is not public"}`)
	})
	mux.HandleFunc("GET /v1/hooks", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"hooks":[{"name":"h"}],"lsn":"1-2"}`) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	if r := osq.Command(t, s.URL).Run("hook", "put", "h", "--url", "https://in.example/", "--on", "job.dead"); r.Code != 0 || !strings.Contains(r.Err, "warning: no event can reach the URL") {
		t.Errorf("%+v", r)
	}
	if r := osq.Command(t, s.URL).Run("hook", "ls"); !strings.Contains(r.Out, "none delivered") {
		t.Errorf("%+v", r)
	}
}
