package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newJobGraphCommand(g *view.Globals) *cobra.Command {
	limit := 100
	cmd := &cobra.Command{
		Use:   "graph ID",
		Short: "Show the jobs that a job depends on, and those that depend on it",
		Long: `Shows, as a tree, the jobs that a job depends on (submit --after) with their own
dependencies, and the jobs that depend on it with theirs. The job itself has a *. A
batch comes after its jobs, and its callback after the batch; the other jobs of the
batch are not shown.

A job with several dependencies is shown in full once, and later with "(above)". "…"
marks a job with dependencies that are not shown: --limit keeps the nearest jobs.`,
		Example: `  osqueue job graph 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			graph, err := c.JobGraph(ctx, args[0], limit)
			if err != nil {
				return err
			}
			if g.JSON {
				return g.WriteJSON(graph)
			}
			return view.Write(g.Out, treeText(g, graph))
		}),
	}
	cmd.Flags().Var(view.From(&limit, 1), "limit", "maximum number of jobs and batches to show")
	return cmd
}

// node is the key of a job or batch of a graph: ids of the two may be equal.
type node struct {
	batch bool
	id    string
}

// tree prints a graph.
type tree struct {
	labels map[node]string
	order  []node
	later  map[node][]node
	behind map[node]bool // nodes with something before them
	shown  map[node]bool
	cut    bool
	out    strings.Builder
}

// treeText returns a graph as a tree. If it is wider than the terminal, its long ids are shortened
// and its lines cut.
func treeText(g *view.Globals, graph v1.Graph) string {
	text := newTree(graph, view.PlainLine).text()
	if width, ok := g.CutWidth(); ok && view.CutLines(text, width) != text {
		short := func(id string) string { return view.ShortenID(view.PlainLine(id), 0) }
		text = view.CutLines(newTree(graph, short).text(), width)
	}
	return text
}

// newTree returns the tree of a graph, in which id makes the texts of ids.
func newTree(g v1.Graph, id func(string) string) *tree {
	t := &tree{labels: make(map[node]string), later: make(map[node][]node), behind: make(map[node]bool), shown: make(map[node]bool), cut: g.Cut}
	for _, j := range g.Jobs {
		n := node{id: j.ID}
		t.order, t.labels[n] = append(t.order, n), jobLabel(j, id(j.ID), j.ID == g.JobID)
	}
	for _, b := range g.Batches {
		n := node{batch: true, id: b.ID}
		t.order, t.labels[n] = append(t.order, n), batchLabel(b, id(b.ID))
	}
	for _, e := range g.Edges {
		from, to := node{e.Kind == v1.EdgeCallback, e.From}, node{e.Kind == v1.EdgeBatch, e.To}
		t.later[from] = append(t.later[from], to)
		t.behind[to] = true
	}
	return t
}

func jobLabel(j v1.GraphJob, id string, root bool) string {
	parts := []string{id, jobState(j)}
	if j.Type != "" {
		parts = append(parts, view.PlainLine(j.Type))
	}
	if j.Percent > 0 {
		parts = append(parts, strconv.Itoa(int(j.Percent))+" %")
	}
	if root {
		parts = append(parts, "*")
	}
	if j.More {
		parts = append(parts, "…")
	}
	return strings.Join(parts, "  ")
}

func jobState(j v1.GraphJob) string {
	switch {
	case j.Planned:
		return "planned"
	case j.Status == "":
		return "(not in the queue, or not yours)"
	}
	return v1.StatusWord(j.Status)
}

func batchLabel(b v1.GraphBatch, id string) string {
	return fmt.Sprintf("batch %s  %d of %d jobs have ended", id, b.Completed+b.Dead+b.Cancelled, b.Total)
}

// text returns the tree. Every node is in it: the first ones have nothing before them.
func (t *tree) text() string {
	for _, n := range t.order {
		if !t.behind[n] {
			t.write(n, "", "")
		}
	}
	for _, n := range t.order { // edges were left out
		if !t.shown[n] {
			t.write(n, "", "")
		}
	}
	if t.cut {
		t.out.WriteString("… more jobs are not shown: give a larger --limit\n")
	}
	return t.out.String()
}

func (t *tree) write(n node, first, rest string) {
	t.out.WriteString(first + t.labels[n])
	if t.shown[n] {
		if len(t.later[n]) > 0 {
			t.out.WriteString("  (above)")
		}
		t.out.WriteString("\n")
		return
	}
	t.shown[n] = true
	t.out.WriteString("\n")
	for i, to := range t.later[n] {
		if i == len(t.later[n])-1 {
			t.write(to, rest+"└─ ", rest+"   ")
		} else {
			t.write(to, rest+"├─ ", rest+"│  ")
		}
	}
}
