package ui

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	v1 "osqueue/client/api/v1"
)

// graphMax bounds the jobs and batches of a drawn graph.
const graphMax = 40

// The boxes of a graph, in the units of the drawing.
const (
	boxWidth, boxHeight = 170, 40
	gapX, gapY          = 50, 12
)

// graph is a drawing of the jobs before and behind a job, from left to right. All of its
// coordinates are computed here; the template only writes them.
type graph struct {
	Width, Height int
	Boxes         []box
	Arrows        []arrow
	More          bool // there are more jobs than graphMax
}

// box is a job or a batch.
type box struct {
	X, Y     int
	ID, Path string
	Name     string // its text
	Note     string
	Status   string // "": of a batch, or of a job that cannot be read
	Self     bool   // the job of the page
}

// arrow is a curve from the right side of one box to the left side of another.
type arrow struct {
	X1, Y1, X2, Y2, Mid int
	Waiting             bool
}

// graphOf returns the graph of a job; nil if it has none, or the caller may not see it.
func (q *request) graphOf(id string) (*graph, error) {
	var in v1.Graph
	var refused *apiError
	err := q.get(segment(v1.PathJobs, id, v1.ActionGraph), url.Values{v1.ParamLimit: {strconv.Itoa(graphMax)}}, &in)
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusForbidden):
		return nil, nil
	case err != nil:
		return nil, err
	case len(in.Edges) == 0:
		return nil, nil
	}
	return draw(&in, boxesOf(&in)), nil
}

// batchKey is the key of a batch among the keys of jobs, which are their ids.
func batchKey(id string) string { return "batch " + id }

// ends returns the keys of what an edge connects.
func ends(e *v1.GraphEdge) (from, to string) {
	from, to = e.From, e.To
	switch e.Kind {
	case v1.EdgeBatch:
		to = batchKey(to)
	case v1.EdgeCallback:
		from = batchKey(from)
	}
	return from, to
}

// boxesOf returns what a graph has, by key.
func boxesOf(in *v1.Graph) map[string]*box {
	boxes := make(map[string]*box)
	for i := range in.Jobs {
		j := &in.Jobs[i]
		b := &box{ID: j.ID, Name: shortID(j.ID), Path: segment("jobs", j.ID), Status: j.Status, Self: j.ID == in.JobID}
		switch {
		case j.Planned:
			b.Note = "when the batch ends"
		case j.Status == "":
			b.Note = "not there any more"
		default:
			b.Note = v1.StatusWord(j.Status) + " · " + cut(13, typeName(j.Type))
		}
		boxes[j.ID] = b
	}
	for _, batch := range in.Batches {
		boxes[batchKey(batch.ID)] = &box{
			ID: batch.ID, Name: shortID(batch.ID), Path: segment("batches", batch.ID), Note: "batch, " + num(int64(batch.Completed)) + " of " + num(int64(batch.Total)) + " completed",
		}
	}
	return boxes
}

// levels returns the column of each box: one more than the last of those before it. The queue
// refuses cycles, and the number of rounds is bounded.
func levels(in *v1.Graph, boxes map[string]*box) map[string]int {
	level := make(map[string]int)
	for range len(boxes) {
		changed := false
		for i := range in.Edges {
			from, to := ends(&in.Edges[i])
			if boxes[from] != nil && boxes[to] != nil && level[to] <= level[from] {
				level[to], changed = level[from]+1, true
			}
		}
		if !changed {
			break
		}
	}
	return level
}

// draw places the boxes in columns and connects them.
func draw(in *v1.Graph, boxes map[string]*box) *graph {
	g := &graph{More: in.Cut}
	level := levels(in, boxes)
	columns := make([][]*box, len(boxes)+1)
	for key, b := range boxes {
		columns[level[key]] = append(columns[level[key]], b)
	}
	for x, column := range columns {
		slices.SortFunc(column, func(a, b *box) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Path, b.Path)) })
		for y, b := range column {
			b.X, b.Y = x*(boxWidth+gapX)+1, y*(boxHeight+gapY)+1
			g.Boxes = append(g.Boxes, *b)
			g.Width, g.Height = max(g.Width, b.X+boxWidth+1), max(g.Height, b.Y+boxHeight+1)
		}
	}
	for i := range in.Edges {
		e := &in.Edges[i]
		fromKey, toKey := ends(e)
		if from, to := boxes[fromKey], boxes[toKey]; from != nil && to != nil {
			x1, x2 := from.X+boxWidth, to.X
			g.Arrows = append(g.Arrows, arrow{x1, from.Y + boxHeight/2, x2, to.Y + boxHeight/2, (x1 + x2) / 2, e.Waiting})
		}
	}
	return g
}
