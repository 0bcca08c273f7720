// Package waits has the jobs that wait for other jobs, and for batches. A job or batch is settled when it has ended or was
// removed, and no waiter has to change for it any more. All of this is derived from the jobs, so a restored machine continues
// in the same way. It decides nothing; package fsm does.
package waits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/job"
)

// Graph has the jobs that wait. It is not safe for concurrent use.
type Graph struct {
	waiters   *btree.Tree[waiter] // blocked jobs by what they wait for
	waited    map[string]Counts   // by what is waited for
	unsettled *btree.Tree[string] // ids of what is not settled
	stuck     int                 // the sum of Counts.stuck

	// Dependents has the jobs by the jobs that they were enqueued to run after. In contrast to the waiters it also has those
	// that do not wait any more. It is copy-on-write.
	Dependents *btree.Tree[Dependent]
}

// New returns an empty graph.
func New() Graph {
	return Graph{
		waiters:    btree.New(byWaited),
		waited:     make(map[string]Counts),
		unsettled:  btree.New(func(a, b string) bool { return a < b }),
		Dependents: btree.New(byEarlier),
	}
}

// waiter is the place of a blocked job among the waiters of one job or batch.
type waiter struct {
	on    string // what it waits for
	stays bool   // it keeps waiting if that fails
	seq   uint64
	id    string
}

func byWaited(a, b waiter) bool {
	if a.on != b.on {
		return a.on < b.on
	}
	if a.stays != b.stays {
		return b.stays
	}
	return a.seq < b.seq
}

// Counts are the numbers of jobs that depend on one.
type Counts struct {
	All   int // that wait for it
	Moved int // of them, those that stop waiting if it fails
	Alive int // that were enqueued to run after it and have not ended
	stuck int // that keep waiting for it although it has failed
}

// Dependent is the place of a job under one of the jobs in its After.
type Dependent struct {
	On  string // id of the earlier job, which may be removed
	Seq uint64
	ID  string
}

func byEarlier(a, b Dependent) bool {
	if a.On != b.On {
		return a.On < b.On
	}
	return a.Seq < b.Seq
}

// Count adds j to the waiters of on (n is 1), or takes it out (n is -1).
func (g *Graph) Count(j *job.Job, on string, n int) {
	one := waiter{on: on, stays: job.FailureOf(j, on) == job.AfterBlock, seq: j.Seq, id: j.ID}
	if n > 0 {
		g.waiters.Set(one)
	} else {
		g.waiters.Delete(one)
	}
	c := g.waited[on]
	c.All += n
	if !one.stays {
		c.Moved += n
	}
	g.set(on, c)
}

func (g *Graph) set(on string, c Counts) {
	if g.waited[on] = c; c == (Counts{}) {
		delete(g.waited, on)
	}
}

// Of returns the numbers of jobs that depend on one.
func (g *Graph) Of(on string) Counts { return g.waited[on] }

// Keeps reports whether an ended job must be kept: others wait for it, or will get its result.
func (g *Graph) Keeps(id string) bool {
	c := g.waited[id]
	return c.All > 0 || c.Alive > 0
}

// Empty reports whether no job depends on another.
func (g *Graph) Empty() bool { return len(g.waited) == 0 && g.unsettled.Len() == 0 }

// Consider records whether what has that id and status has waiters to settle. The status of what was removed is 0; dead stands
// for a batch of which a job failed.
func (g *Graph) Consider(id string, s job.Status) {
	if g.Empty() {
		return
	}
	n, c := 0, g.waited[id]
	g.stuck -= c.stuck
	c.stuck = 0
	switch s {
	case 0, job.Completed:
		n = c.All
	case job.Dead, job.Cancelled, job.Expired:
		n, c.stuck = c.Moved, c.All-c.Moved
	}
	g.stuck += c.stuck
	g.set(id, c)
	if n > 0 {
		g.unsettled.Set(id)
	} else {
		g.unsettled.Delete(id)
	}
}

// Stuck returns the number of jobs that keep waiting for a job or batch that has failed. A job that waits for two of them counts
// twice.
func (g *Graph) Stuck() int { return g.stuck }

// First returns the lowest id of what is not settled; ok is false if there is none.
func (g *Graph) First() (id string, ok bool) { return g.unsettled.Min() }

// Next returns the id of the waiter with the lowest Seq: among all waiters, or among those that stop waiting after a failure.
func (g *Graph) Next(on string, all bool) string {
	next := g.first(on, false)
	if stays := g.first(on, true); all && stays.id != "" && (next.id == "" || stays.seq < next.seq) {
		return stays.id
	}
	return next.id
}

func (g *Graph) first(on string, stays bool) (first waiter) {
	g.waiters.Ascend(waiter{on: on, stays: stays}, func(one waiter) bool {
		if one.on == on && one.stays == stays {
			first = one
		}
		return false
	})
	return first
}

// Add notes the jobs that a new job was enqueued to run after, and Remove forgets them.
func (g *Graph) Add(j *job.Job) {
	for _, on := range j.Options().After {
		g.Dependents.Set(Dependent{On: on, Seq: j.Seq, ID: j.ID})
	}
	g.CountAlive(j, +1)
}

func (g *Graph) Remove(j *job.Job) {
	for _, on := range j.Options().After {
		g.Dependents.Delete(Dependent{On: on, Seq: j.Seq})
	}
	g.CountAlive(j, -1)
}

// CountAlive counts a job that has not ended under the jobs that it was enqueued to run after (n is 1), or takes it out (n is
// -1). Those jobs are kept while it has not ended, because it gets their results.
func (g *Graph) CountAlive(j *job.Job, n int) {
	if j.Status.Ended() {
		return
	}
	for _, on := range j.Options().After {
		c := g.waited[on]
		c.Alive += n
		g.set(on, c)
	}
}

// All calls fn for everything on which a job depends. fn may call Consider.
func (g *Graph) All(fn func(id string)) {
	for id := range g.waited {
		fn(id)
	}
}

// String lists what the graph has, for comparisons.
func (g *Graph) String() string {
	var out strings.Builder
	g.Dependents.Scan(func(d Dependent) bool { fmt.Fprintf(&out, "dependent %+v\n", d); return true })
	g.waiters.Scan(func(w waiter) bool { fmt.Fprintf(&out, "waiter %+v\n", w); return true })
	g.unsettled.Scan(func(id string) bool { fmt.Fprintf(&out, "unsettled %q\n", id); return true })
	for _, id := range slices.Sorted(maps.Keys(g.waited)) {
		fmt.Fprintf(&out, "waited %q: %+v\n", id, g.waited[id])
	}
	fmt.Fprintf(&out, "%d stuck\n", g.stuck)
	return out.String()
}
