package jobs

import (
	"cmp"
	"slices"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// graphEdgesMax is the largest number of edges of a graph for each job of its limit.
const graphEdgesMax = 10

// jobGraph is GET /v1/jobs/{id}/graph.
func (s *jobs) jobGraph(c *core.Call) error {
	limit, err := s.ReadLimit(c.Params)
	if err != nil {
		return err
	}
	built, err := s.Page(c)
	if err != nil {
		return err
	}
	v := c.View()
	g := grapher{v: v, job: c.State().Job, limit: limit, hidden: s.hidden(c), named: c.Named, places: make(map[string]int), ofBatch: make(map[string]bool)}
	found := g.build(c.Name)
	built()
	if !found || g.found[0] == nil { // hidden
		return fsm.NotFound.Err()
	}
	g.out.LSN = c.Lsn.String()
	return c.SendJSON(g.out)
}

// hidden returns whether the caller may not read a job of a type and a group, for lists of jobs
// that are related to one that it may read.
func (s *jobs) hidden(c *core.Call) func(jobType, group string) bool {
	p := c.Principal
	if p == nil || !p.Scoped() || s.Access.Mode != core.SecurityOn {
		return func(string, string) bool { return false }
	}
	return func(jobType, group string) bool { return p.CheckScope(jobType, group) != nil }
}

// grapher builds the graph of one job, breadth first, so that the limit leaves out the most
// distant jobs.
type grapher struct {
	v       *fsm.View
	job     func(id string) *fsm.Job // as it is now, which may be later than v
	hidden  func(jobType, group string) bool
	named   func(owned string) string
	limit   int
	out     v1.Graph
	found   []*fsm.Job // of out.Jobs; nil: it is not known
	places  map[string]int
	ofBatch map[string]bool
}

func (g *grapher) hides(j *fsm.Job) bool { return g.hidden(j.Type, j.Options().Group) }

// build reports whether the job exists.
func (g *grapher) build(id string) bool {
	if g.job(id) == nil {
		return false
	}
	g.out = v1.Graph{JobID: id, Jobs: []v1.GraphJob{}, Batches: []v1.GraphBatch{}, Edges: []v1.GraphEdge{}}
	g.add(id, 0)
	for at := 0; at < len(g.out.Jobs); at++ { // the loop adds jobs
		j, depth := g.found[at], g.out.Jobs[at].Depth
		if j == nil {
			continue
		}
		if depth <= 0 {
			g.before(at, j)
		}
		if depth >= 0 {
			g.behind(at, j)
		}
	}
	g.connect()
	slices.SortStableFunc(g.out.Jobs, func(a, b v1.GraphJob) int { return cmp.Compare(a.Depth, b.Depth) })
	return true
}

// add adds a job. It returns false if there is no room for it.
func (g *grapher) add(id string, depth int) bool {
	if _, there := g.places[id]; there {
		return true
	}
	if len(g.out.Jobs)+len(g.out.Batches) >= g.limit {
		g.out.Cut = true
		return false
	}
	n, j := v1.GraphJob{ID: id, Depth: depth}, g.job(id)
	if j != nil && g.hides(j) {
		j = nil
	}
	if j != nil {
		e := j.Execution()
		n.Status, n.Type, n.Attempts, n.CreatedAt = j.Status.String(), j.Type, j.Attempts, j.CreatedAt
		n.ClaimedAt, n.FinishedAt, n.WorkerID = e.ClaimedAt, e.FinishedAt, g.named(e.Worker)
		n.Percent, n.Cron, n.BatchID = j.Details().Progress.Percent, g.named(j.Options().Cron), g.named(j.Options().Batch)
		if n.WorkerID == fsm.Anonymous {
			n.WorkerID = ""
		}
	}
	g.places[id] = len(g.out.Jobs)
	g.out.Jobs, g.found = append(g.out.Jobs, n), append(g.found, j)
	return true
}

// before adds the jobs that j was enqueued to run after.
func (g *grapher) before(at int, j *fsm.Job) {
	for _, id := range j.Options().After {
		if !g.add(id, g.out.Jobs[at].Depth-1) {
			return
		}
	}
}

// behind adds the jobs that run after j, and the callback of its batch.
func (g *grapher) behind(at int, j *fsm.Job) {
	depth := g.out.Jobs[at].Depth + 1
	for id := range g.v.Dependents(j.ID) {
		if later := g.job(id); later == nil || g.hides(later) {
			g.out.Jobs[at].More = g.out.Jobs[at].More || later != nil
		} else if !g.add(id, depth) {
			g.out.Jobs[at].More = true
			break
		}
	}
	if id := j.Options().Batch; id != "" && !g.ofBatch[g.named(id)] {
		g.batch(at, id, depth+1)
	}
}

func (g *grapher) batch(at int, id string, depth int) {
	b := g.v.Batch(id)
	if b == nil {
		return // retention has removed it
	}
	if len(g.out.Jobs)+len(g.out.Batches) >= g.limit {
		g.out.Cut, g.out.Jobs[at].More = true, true
		return
	}
	g.ofBatch[g.named(id)] = true
	g.out.Batches = append(g.out.Batches, v1.GraphBatch{
		ID: g.named(b.Id), Total: b.Total, Completed: b.Completed, Dead: b.Dead, Cancelled: b.Cancelled, EndedAt: b.EndedAtMs,
	})
	if b.Callback == nil || !g.add(b.Callback.GetId(), depth) {
		return
	}
	if n := &g.out.Jobs[g.places[b.Callback.GetId()]]; n.Status == "" && !b.Called {
		n.Planned = true
		if !g.hidden(b.Callback.GetType(), b.Callback.GetOptions().GetGroup()) {
			n.Type = b.Callback.GetType()
		}
	}
	g.edge(v1.GraphEdge{Kind: v1.EdgeCallback, From: g.named(b.Id), To: b.Callback.GetId(), Waiting: !b.Called})
}

// connect adds the edges between the jobs, and to the batches.
func (g *grapher) connect() {
	for at, j := range g.found {
		if j == nil {
			continue
		}
		n := &g.out.Jobs[at]
		for i, id := range j.Options().After {
			switch _, there := g.places[id]; {
			case !there:
				n.More = true
			case slices.Contains(j.Options().After[:i], id): // named twice
			default:
				g.edge(v1.GraphEdge{Kind: v1.EdgeAfter, From: id, To: j.ID, Waiting: slices.Contains(j.Details().Waits, id)})
			}
		}
		if g.ofBatch[n.BatchID] && n.Depth >= 0 {
			g.edge(v1.GraphEdge{Kind: v1.EdgeBatch, From: j.ID, To: n.BatchID})
		}
	}
}

func (g *grapher) edge(e v1.GraphEdge) {
	if len(g.out.Edges) >= g.limit*graphEdgesMax {
		g.out.Cut = true
		return
	}
	g.out.Edges = append(g.out.Edges, e)
}
