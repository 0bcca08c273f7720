package fsm

import (
	"cmp"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/timers"
)

// types has the types with jobs or settings, in the order in which claims take their jobs.
type types struct {
	meta   *Meta
	timers timers.Set

	typed    *btree.Tree[*Job] // by type, then status, then seq
	settings *btree.Tree[*QueueSettings]
	turns    *btree.Tree[*Turn]
	limits   limits

	queues  map[string]*queue
	heads   *btree.Tree[*queue] // those with a claimable job, ordered by that job
	touched []*queue            // those with jobs that became claimable in this entry
	dirty   []*queue            // those whose retention must be checked
	ranked  rankedTypes         // as of the last View
	stale   []*queue            // those that have changed since

	building bool // the state is being restored: only derived fields change
}

func newTypes(meta *Meta, due timers.Set) types {
	return types{
		meta:     meta,
		timers:   due,
		typed:    btree.New(byType),
		settings: btree.New(bySettings),
		turns:    btree.New(byTurn),
		limits:   newLimits(),
		queues:   make(map[string]*queue),
		heads:    btree.New(byBest),
		ranked:   newRankedTypes(),
	}
}

// queue has the index of one type. It exists while the type has jobs or settings, and is
// derived from them.
//
// Claims take the best job of all types in O(log n). types.heads orders the open types by
// their best job. queue.order has the groups that may run one more job, ordered by their best job
// and their turn.
type queue struct {
	name     string
	counts   Counts
	bytes    int64
	settings *QueueSettings // nil: the defaults
	agingMs  int64          // of the settings, as the jobs are sorted by
	figures  *Figures       // the record under which its jobs were counted last; see figures.Table.Count

	groups  map[string]*group   // groups with unclaimed or running jobs
	waiting *btree.Tree[*group] // groups with unclaimed jobs, by name
	order   *btree.Tree[*group] // groups that a claim can take a job of
	best    *Job                // its job in types.heads; nil: it is not in heads

	retained [4]*btree.Tree[*Job] // the jobs that retention may remove; see retainedWith

	permitAt int64 // the time of the timer for the next permit; 0: no timer
	retainAt int64 // the time of the timer of the retention; 0: no timer
	resumeAt int64 // the time of the timer for the end of the pause; 0: no timer
	arrived  int   // jobs that became claimable in this entry
	touched  bool  // it is in types.touched
	dirty    bool  // it is in types.dirty
	stale    bool  // it is in types.stale
}

// group holds the unclaimed jobs of one group of a type, or the lanes of a line (lane.go).
type group struct {
	name    string
	ready   *btree.Tree[*Job]  // without limits, in claim order; nil in a line
	heads   *btree.Tree[*lane] // the lanes that wait here, by their heads; nil: none ever did
	jobs    int                // in these lanes
	lanes   map[string]*lane   // all lanes of the group, the parked ones, too
	key     *limitKey          // of a line
	running int
	waiting bool   // it is in queue.waiting
	turn    uint64 // 0: none
	head    *Job   // its job in queue.order; nil: it is not in the order
}

// waits reports whether the group has unclaimed jobs that are not in parked lanes.
func (g *group) waits() bool { return g.ready.Len() > 0 || g.jobs > 0 }

// byBest orders types by the job that a claim gets.
func byBest(a, b *queue) bool { return byClaimOrder(a.best, b.best) }

// rank is the priority of a waiting job in its type: with ageing it is that of a job that has waited since time 0, so that
// the order of two jobs never changes.
func (q *queue) rank(j *Job) int64 {
	if q.agingMs <= 0 {
		return int64(j.Priority)
	}
	return int64(j.Priority) - max(j.CreatedAt, j.RunAt)/q.agingMs
}

// before orders the jobs of a group by rank, highest first, then first in, first out.
func (q *queue) before(a, b *Job) bool {
	if x, y := q.rank(a), q.rank(b); x != y {
		return x > y
	}
	return a.Seq < b.Seq
}

// headBefore orders the groups of a type by the rank of their heads, highest first, then
// by turn. Lines, which have no turn, come before groups without one.
func (q *queue) headBefore(a, b *group) bool {
	if x, y := q.rank(a.head), q.rank(b.head); x != y {
		return x > y
	}
	if a.turn != b.turn {
		return a.turn < b.turn
	}
	if (a.key == nil) != (b.key == nil) {
		return a.key != nil
	}
	return a.name < b.name
}

func byGroup(a, b *group) bool { return a.name < b.name }

// queue returns the queue of a type, and makes it if there is none. The queue's name is
// the only copy of the type's string; all jobs of the type share it.
func (t *types) queue(name string) *queue {
	q := t.queues[name]
	if q == nil {
		name = strings.Clone(name)
		q = &queue{
			name:    name,
			groups:  make(map[string]*group),
			waiting: btree.New(byGroup),
		}
		q.order = btree.New(q.headBefore)
		t.queues[name] = q
	}
	return q
}

// dropIdle removes the queue of a type without jobs and settings.
func (t *types) dropIdle(q *queue) {
	if q.counts.Empty() && q.settings == nil {
		delete(t.queues, q.name)
	}
}

func (q *queue) group(name string) *group {
	g := q.groups[name]
	if g == nil {
		g = &group{name: strings.Clone(name), ready: btree.New(q.before)}
		q.groups[g.name] = g
	}
	return g
}

func (q *queue) dropGroup(g *group) {
	if g.ready.Len() == 0 && g.running == 0 && len(g.lanes) == 0 {
		delete(q.groups, g.name)
	}
}

// beginWait adds an unclaimed job to its group.
func (t *types) beginWait(q *queue, j *Job) {
	g := q.group(j.InGroup())
	t.enter(q, g, j)
	t.arrive(q, 1)
	t.settleGroup(q, g)
}

// enter adds a job to a group, or to one of its lanes.
func (t *types) enter(q *queue, g *group, j *Job) {
	if j.Opt != nil && len(j.Opt.Limits) > 0 {
		t.join(q, g, j)
		return
	}
	g.ready.Set(j)
}

// exit removes a job from where enter has put it.
func (t *types) exit(q *queue, g *group, j *Job) {
	if j.Opt != nil && len(j.Opt.Limits) > 0 {
		t.leave(q, g, j)
		return
	}
	g.ready.Delete(j)
}

// settleGroup puts a group at the right places after its waiting jobs have changed.
func (t *types) settleGroup(q *queue, g *group) {
	if waits := g.waits(); waits != g.waiting {
		if g.waiting = waits; !waits {
			q.waiting.Delete(g)
			t.setTurn(q, g, 0)
		} else if q.waiting.Set(g); q.waiting.Len() > 1 {
			t.joinRotation(q, g)
		}
	}
	t.refresh(q, g)
	q.dropGroup(g)
}

// endWait removes a job that is no longer unclaimed from its group.
func (t *types) endWait(q *queue, j *Job) {
	g := q.group(j.InGroup())
	t.exit(q, g, j)
	t.settleGroup(q, g)
}

// countRunning adds n to the number of running jobs of a group.
func (t *types) countRunning(q *queue, name string, n int) {
	g := q.group(name)
	g.running += n
	if s := q.settings; n < 0 && s != nil && limitsRunning(s) {
		t.arrive(q, 1)
	}
	t.refresh(q, g)
	q.dropGroup(g)
}

func limitsRunning(s *QueueSettings) bool { return s.MaxRunning > 0 || s.MaxRunningPerGroup > 0 }

// joinRotation puts a group that begins to wait at the end of the rotation. If only one
// other group was waiting, that group has no turn yet and gets one first.
func (t *types) joinRotation(q *queue, g *group) {
	if t.building {
		return // AddTurn sets the turns of a restored state
	}
	if q.waiting.Len() == 2 {
		if alone := q.alone(g); alone.turn == 0 {
			t.setTurn(q, alone, t.nextTurn())
			t.refresh(q, alone)
		}
	}
	t.setTurn(q, g, t.nextTurn())
}

// alone returns the other one of the two waiting groups.
func (q *queue) alone(g *group) *group {
	if first, _ := q.waiting.Min(); first != g {
		return first
	}
	last, _ := q.waiting.Max()
	return last
}

func (t *types) nextTurn() uint64 {
	t.meta.LastTurn++
	return t.meta.LastTurn
}

// setTurn changes a group's turn; 0 removes the group from the rotation.
func (t *types) setTurn(q *queue, g *group, turn uint64) {
	if g.turn == turn {
		return
	}
	q.takeOut(g)
	g.turn = turn
	place := &Turn{Type: q.name, Group: g.name, Turn: turn}
	if turn == 0 {
		t.turns.Delete(place)
		return
	}
	t.turns.Set(place)
}

// served moves a group from which a job was claimed to the end of the rotation if other
// groups wait.
func (t *types) served(q *queue, name string) {
	if q.waiting.Len() < 2 {
		return
	}
	if g := q.groups[name]; g != nil && g.waiting {
		t.setTurn(q, g, t.nextTurn())
		t.refresh(q, g)
	}
}

func byTurn(a, b *Turn) bool {
	return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Group, b.Group)) < 0
}

func (q *queue) takeOut(g *group) {
	if g.head != nil {
		q.order.Delete(g)
		g.head = nil
	}
}

// refresh puts a group, and its type, at the right places of the orders after a change.
func (t *types) refresh(q *queue, g *group) {
	head := q.headOf(g)
	if head != g.head {
		if head != nil && g.head != nil && q.rank(head) == q.rank(g.head) {
			g.head = head // the same place
		} else {
			q.takeOut(g)
			if g.head = head; head != nil {
				q.order.Set(g)
			}
		}
	}
	t.refreshHead(q)
}

// headOf returns the job that a claim gets from the group, or nil.
func (q *queue) headOf(g *group) *Job {
	var head *Job
	if g.key != nil {
		if !g.key.open() {
			return nil
		}
	} else if q.groupFull(g) {
		return nil
	} else {
		head, _ = g.ready.Min()
	}
	if g.jobs > 0 {
		if l, _ := g.heads.Min(); head == nil || q.before(l.head, head) {
			return l.head
		}
	}
	return head
}

// sortMax is the largest number of waiting jobs that one mutation sorts again.
const sortMax = 100_000

// sortAgain sorts the waiting jobs of a type by another agingMs. The caller refreshes the groups.
func (t *types) sortAgain(q *queue, agingMs int64) {
	lines := make(map[*group]bool)
	for _, g := range q.groups {
		q.takeOut(g)
		for _, l := range g.lanes {
			if l.line != nil && !lines[l.line] {
				lines[l.line] = true
				q.takeOut(l.line)
				l.line.heads = btree.New(q.laneBefore)
			}
		}
	}
	q.agingMs = agingMs
	sorted := func(jobs *btree.Tree[*Job]) *btree.Tree[*Job] {
		again := btree.New(q.before)
		jobs.Scan(func(j *Job) bool { again.Set(j); return true })
		return again
	}
	for _, g := range q.groups {
		g.ready = sorted(g.ready)
		if g.heads != nil {
			g.heads = btree.New(q.laneBefore)
		}
		for _, l := range g.lanes {
			l.ready = sorted(l.ready)
			l.head, _ = l.ready.Min()
			l.place().heads.Set(l)
		}
	}
	for line := range lines {
		t.refresh(q, line)
	}
}

// groupFull reports whether no other job of a group may run.
func (q *queue) groupFull(g *group) bool {
	s := q.settings
	return s != nil && s.MaxRunningPerGroup > 0 && g.name != "" && int64(g.running) >= s.MaxRunningPerGroup
}

// refreshHead puts a type at the right place of heads after a change.
func (t *types) refreshHead(q *queue) {
	var best *Job
	if first, ok := q.order.Min(); !ok {
		t.timePermit(q, 0)
	} else if t.open(q) {
		best = first.head
	}
	if best == q.best {
		return
	}
	if q.best != nil {
		t.heads.Delete(q)
	}
	if q.best = best; best != nil {
		t.heads.Set(q)
	}
}

// open reports whether the limits of the type allow one more claim. If only a permit is
// missing, it sets the timer for the next one.
func (t *types) open(q *queue) bool {
	s := q.settings
	if s == nil {
		t.timePermit(q, 0)
		return true
	}
	if s.Paused || s.MaxRunning > 0 && int64(q.counts[InProgress]) >= s.MaxRunning {
		t.timePermit(q, 0)
		return false
	}
	if s.RateMilli <= 0 || bucketOf(s).levelAt(t.meta.NowMs) >= permit {
		if q.permitAt != 0 { // the permit came before its timer fired
			t.arrive(q, min(t.claimCapacity(q), q.counts[Unclaimed]))
		}
		t.timePermit(q, 0)
		return true
	}
	at := bucketOf(s).reaches(permit)
	if at <= t.meta.NowMs { // the time has saturated
		at = 0
	}
	t.timePermit(q, at)
	return false
}

// timePermit moves the timer for the next permit; 0 removes it.
func (t *types) timePermit(q *queue, at int64) {
	t.timers.Move(&q.permitAt, at, timers.Permit, q.name)
}

// permitCame opens a type whose rate allows a claim again.
func (t *types) permitCame(q *queue) {
	q.permitAt = 0
	t.arrive(q, min(t.claimCapacity(q), q.counts[Unclaimed]))
	t.refreshHead(q)
}

// arrive records that n more jobs of the type may be claimable.
func (t *types) arrive(q *queue, n int) {
	q.arrived += n
	if !q.touched {
		q.touched = true
		t.touched = append(t.touched, q)
	}
}

// Claimable returns the number of jobs of a type that claims would get now within the
// limits of the type.
func (m *Machine) Claimable(jobType string) int {
	q := m.types.queues[jobType]
	if q == nil || q.best == nil {
		return 0
	}
	return min(q.counts[Unclaimed], m.types.claimCapacity(q))
}

// NextType returns the type of the job that a claim of every type gets; ok is false if it
// gets none.
func (m *Machine) NextType() (jobType string, ok bool) {
	q, ok := m.types.heads.Min()
	if !ok {
		return "", false
	}
	return q.name, true
}

// Wakeups calls fn for each type in which the last entry made jobs claimable, with the
// number of waiting claims to wake.
func (m *Machine) Wakeups(fn func(jobType string, n int)) {
	for _, q := range m.types.touched {
		if n := min(q.arrived, q.counts[Unclaimed], m.types.claimCapacity(q)); n > 0 && q.best != nil {
			fn(q.name, n)
		}
	}
}
