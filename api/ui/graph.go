package ui

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	v1 "osqueue/client/api/v1"
)

// graphMax bounds the jobs of a drawn graph. Each is a call to the API.
const graphMax = 24

// The boxes of a graph, in the units of the drawing.
const (
	boxWidth, boxHeight = 170, 40
	gapX, gapY          = 50, 12
)

// graph is a drawing of jobs and the jobs that they wait for, from left to right. All of its
// coordinates are computed here; the template only writes them.
type graph struct {
	Width, Height int
	Boxes         []box
	Arrows        []arrow
	More          bool // there are more jobs than graphMax
}

type box struct {
	X, Y   int
	ID     string
	Type   string
	Status string // "": the job does not exist any more
	Self   bool   // the job of the page
}

// arrow is a curve from the right side of one box to the left side of another.
type arrow struct{ X1, Y1, X2, Y2, Mid int }

// node is a job of a graph before it is drawn.
type node struct {
	job   *v1.Job // without type and status: it does not exist any more
	level int     // the longest way to a job that waits for it, and for nothing else
}

// graphOf draws a job with the jobs that it waits for, and the jobs that these wait for.
func (q *request) graphOf(self *v1.Job) (*graph, error) {
	if len(self.After) == 0 {
		return nil, nil //nolint:nilnil // a job without dependencies has no graph
	}
	nodes := map[string]*node{self.ID: {job: self}}
	g := &graph{}
	for next := []*v1.Job{self}; len(next) > 0; next = next[1:] {
		for _, id := range next[0].After {
			if nodes[id] != nil {
				continue
			}
			if len(nodes) == graphMax {
				g.More = true
				break
			}
			j, err := q.jobOrNone(id)
			if err != nil {
				return nil, err
			}
			nodes[id] = &node{job: j}
			next = append(next, j)
		}
	}
	raise(nodes, self.ID, len(nodes))
	g.draw(nodes, self.ID)
	return g, nil
}

// jobOrNone reads a job. One that does not exist any more has nothing but its id.
func (q *request) jobOrNone(id string) (*v1.Job, error) {
	j := new(v1.Job)
	var refused *apiError
	switch err := q.get(segment(v1.PathJobs, id), nil, j); {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound, errors.As(err, &refused) && refused.Status == http.StatusForbidden:
		return &v1.Job{ID: id}, nil
	case err != nil:
		return nil, err
	}
	return j, nil
}

// raise sets the levels of the jobs that a job waits for. left bounds the depth: the queue
// refuses cycles, but the jobs are read one after the other.
func raise(nodes map[string]*node, id string, left int) {
	for _, parent := range nodes[id].job.After {
		if p := nodes[parent]; p != nil && left > 0 && p.level <= nodes[id].level {
			p.level = nodes[id].level + 1
			raise(nodes, parent, left-1)
		}
	}
}

// draw places the boxes in columns by level, and connects them.
func (g *graph) draw(nodes map[string]*node, self string) {
	deepest := 0
	for _, n := range nodes {
		deepest = max(deepest, n.level)
	}
	columns := make([][]*node, deepest+1)
	for _, n := range nodes {
		columns[deepest-n.level] = append(columns[deepest-n.level], n)
	}
	at := map[string]box{}
	for x, column := range columns {
		slices.SortFunc(column, func(a, b *node) int { return cmp.Compare(a.job.ID, b.job.ID) })
		for y, n := range column {
			b := box{X: x*(boxWidth+gapX) + 1, Y: y*(boxHeight+gapY) + 1, ID: n.job.ID, Type: n.job.Type, Status: n.job.Status, Self: n.job.ID == self}
			at[b.ID] = b
			g.Boxes = append(g.Boxes, b)
			g.Width, g.Height = max(g.Width, b.X+boxWidth+1), max(g.Height, b.Y+boxHeight+1)
		}
	}
	for _, column := range columns {
		for _, n := range column {
			to := at[n.job.ID]
			for _, parent := range n.job.After {
				if from, drawn := at[parent]; drawn {
					x1, x2 := from.X+boxWidth, to.X
					g.Arrows = append(g.Arrows, arrow{x1, from.Y + boxHeight/2, x2, to.Y + boxHeight/2, (x1 + x2) / 2})
				}
			}
		}
	}
}
