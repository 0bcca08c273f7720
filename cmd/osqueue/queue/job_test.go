package queue

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

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
	check(t, err)
	script, err := os.ReadFile("../../../api/ui/static/app.js")
	check(t, err)
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
