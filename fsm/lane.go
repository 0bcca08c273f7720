package fsm

import (
	"cmp"
	"slices"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/job"
)

// lane has the unclaimed jobs of one group that have the same limits. While it is free it waits in its group, and while it is
// parked in a line: a group of the index that has the lanes of the type that wait for room under one key.
type lane struct {
	group  *group
	limits []string
	ready  *btree.Tree[*Job] // in claim order
	head   *Job              // its job in the lanes of the group or line; nil: it is not there
	line   *group            // nil: it is free
}

func (q *queue) laneBefore(a, b *lane) bool { return q.before(a.head, b.head) }

func byLanePlace(a, b *ParkedLane) bool {
	return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Group, b.Group), slices.Compare(a.Limits, b.Limits)) < 0
}

// laneKey returns the name of a lane in its group. No key of a limit has a "*".
func laneKey(limits []string) string { return strings.Join(limits, "*") }

// lane returns a lane of the group, and makes it if there is none.
func (q *queue) lane(g *group, limits []string) *lane {
	name := laneKey(limits)
	l := g.lanes[name]
	if l == nil {
		l = &lane{group: g, limits: job.CloneStrings(limits), ready: btree.New(q.before)}
		if g.lanes == nil {
			g.lanes, g.heads = make(map[string]*lane), btree.New(q.laneBefore)
		}
		g.lanes[strings.Clone(name)] = l
	}
	return l
}

// place returns the group or line in which the lane waits.
func (l *lane) place() *group { return cmp.Or(l.line, l.group) }

// sort puts the lane at the right place among others after a change of its jobs, of which there are n more.
func (l *lane) sort(n int) {
	at := l.place()
	at.jobs += n
	if l.head != nil {
		at.heads.Delete(l)
	}
	if l.head, _ = l.ready.Min(); l.head != nil {
		at.heads.Set(l)
	}
}

// join adds an unclaimed job to its lane. A lane that gets its first job is tried.
func (t *types) join(q *queue, g *group, j *Job) {
	l := q.lane(g, j.Options().Limits)
	l.ready.Set(j)
	l.sort(1)
	if l.line != nil {
		t.refresh(q, l.line)
	} else if l.ready.Len() == 1 && !t.building {
		t.moveLane(q, l, t.blocking(l.limits))
	}
}

// leave removes a job from its lane, and an empty lane from its group.
func (t *types) leave(q *queue, g *group, j *Job) {
	name := laneKey(j.Options().Limits)
	l := g.lanes[name]
	l.ready.Delete(j)
	l.sort(-1)
	if l.ready.Len() == 0 {
		delete(g.lanes, name)
		if l.line != nil {
			t.limits.parked.Delete(t.laneRecord(q, l))
		}
	}
	if l.line != nil {
		t.settleLine(q, l.line)
	}
}

// moveLane parks a lane under a key; nil lets it be free.
func (t *types) moveLane(q *queue, l *lane, to *limitKey) {
	from := l.line
	if from != nil && from.key == to {
		t.review(to)
		return
	}
	if from == nil && to == nil {
		return
	}
	n := l.ready.Len()
	l.place().heads.Delete(l)
	l.place().jobs -= n
	if from != nil {
		t.limits.parked.Delete(t.laneRecord(q, l))
	}
	if l.line = nil; to != nil {
		l.line = to.line(q)
		t.limits.parked.Set(t.laneRecord(q, l))
	}
	l.place().heads.Set(l)
	l.place().jobs += n
	if from != nil {
		t.settleLine(q, from)
	}
	if to != nil {
		t.review(to)
	}
	t.settleGroup(q, l.group)
}

func (t *types) laneRecord(q *queue, l *lane) *ParkedLane {
	r := &ParkedLane{Type: q.name, Group: l.group.name, Limits: l.limits}
	if l.line != nil {
		r.Key = l.line.name
	}
	return r
}

// line returns the line of a key in a type, and makes it if there is none.
func (k *limitKey) line(q *queue) *group {
	g := k.lines[q]
	if g == nil {
		g = &group{name: k.name, key: k, heads: btree.New(q.laneBefore)}
		k.lines[q] = g
	}
	return g
}

// settleLine puts a line at the right place after a lane of it has changed or left; an empty line is gone.
func (t *types) settleLine(q *queue, line *group) {
	t.refresh(q, line)
	if line.heads.Len() == 0 {
		delete(line.key.lines, q)
	}
	t.review(line.key)
}

// misplaced returns the lane of the best job of a type, and where it has to move, if the job cannot be claimed.
func (t *types) misplaced(q *queue) (l *lane, to *limitKey, misplaced bool) {
	limits := q.best.Options().Limits
	if len(limits) == 0 {
		return nil, nil, false
	}
	g := q.group(q.best.InGroup())
	l, to = g.lanes[laneKey(limits)], t.blocking(limits)
	return l, to, to != nil || l.line != nil && q.groupFull(g)
}
