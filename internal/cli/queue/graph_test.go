package queue

import (
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
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
	if got := newTree(aGraph).text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestGraphInDOT(t *testing.T) {
	got := dotText(aGraph)
	for _, line := range []string{
		`"job:c" [label="c  running  t  40 %", penwidth=2];`, `"batch:c" [label="batch c  2 of 3 jobs have ended", shape=oval];`,
		`"job:e" [label="e  planned  \"u\""];`, `"job:a" -> "job:c";`, `"job:b" -> "job:c" [style=dashed];`, `"job:c" -> "batch:c";`,
		`"batch:c" -> "job:e" [style=dashed];`,
	} {
		if !strings.Contains(got, "  "+line+"\n") {
			t.Errorf("no line %s in\n%s", line, got)
		}
	}
	if strings.ContainsRune(got, '\x1b') {
		t.Error("a control character of an id is written as it is")
	}
}
