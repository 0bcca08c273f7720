package fsm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"osqueue/fsm/answers"
	"osqueue/fsm/btree"
	"osqueue/fsm/job"
	"osqueue/fsm/outbox"
	"osqueue/fsm/recordio"
	"osqueue/fsm/timers"
)

// The internal constants that the tests of behaviour use.
const (
	ClaimMemoryMs      = answers.ClaimMemoryMs
	ClaimsPerWorkerMax = answers.ClaimsPerWorkerMax
	ClaimsMax          = answers.ClaimsMax
	ClaimJobsMax       = claimJobsMax
	ClaimBytesMax      = claimBytesMax
	RecordMax          = recordio.RecordMax
	EpochMax           = epochMax
	CounterMax         = counterMax
	NumCodes           = numCodes
)

// ContentOf is the content of j as the machine remembers it.
func ContentOf(j *Job) string {
	o, c := *j.Options(), *j
	o.After, o.Tags = job.Distinct(o.After), job.Distinct(o.Tags)
	c.Opt = &o
	sum := job.ContentOf(&c)
	return string(sum[:])
}

// Bare is j, with an execution, without what is derived: two machines in the same state may differ
// in where a lazily moved timer stands.
func Bare(j *Job) Job {
	c := *j
	e := *c.Execution()
	e.TimerAt = 0
	c.Exec = &e
	if c.Det != nil {
		d := *c.Det
		d.TimerAt = 0
		c.Det = &d
	}
	return c
}

// SetBudgets bounds the work of each entry from now on.
func (m *Machine) SetBudgets(settle, fire, retire int) {
	m.max = budgets{settle: settle, fire: fire, retire: retire}
	m.figures.Most = 2
}

// CheckIndexes compares everything that m derives with the derived fields of a machine
// rebuilt from the same state.
func (m *Machine) CheckIndexes() error {
	fresh, err := m.rebuilt()
	if err != nil {
		return fmt.Errorf("the state cannot be restored: %w", err)
	}
	got, want := m.derived(), fresh.derived()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Errorf("derived:\n%s\nanew:\n%s", strings.Join(got[min(i, len(got)):], "\n"), strings.Join(want[min(i, len(want)):], "\n"))
		}
	}
	return errors.Join(
		m.checkCurrent(),
		m.checkTimers(fresh),
		m.checkClaims(),
		m.checkScalars(),
	)
}

func (m *Machine) rebuilt() (*Machine, error) {
	b := NewBuilder(m.Meta())
	err := errors.Join(
		addAll(m.jobs, func(j *Job) error { c := Bare(j); return b.AddJob(&c) }),
		addAll(m.workers.Tree, b.AddWorker),
		addAll(m.claims.Records, b.AddClaim),
		addAll(m.types.settings, b.AddQueue),
		addAll(m.types.limits.records, b.AddLimit),
		addAll(m.types.limits.parked, b.AddLane),
		addAll(m.types.turns, b.AddTurn),
		addAll(m.crons.Tree, b.AddCron),
		addAll(m.batches.Tree, b.AddBatch),
		addAll(m.uniques.Tree, b.AddHold),
		addAll(m.requests.Records, b.AddRequest),
		addAll(m.tokens.Tree, b.AddToken),
		addAll(m.figures.Tree, b.AddFigures),
		addEach(m.hooks.Hooks, func(h *outbox.Hook) error { return b.addHook(h.Hook) }),
		addEach(m.hooks.AllHookEvents, b.addHookEvent),
		addEach(m.artefacts.AllArtefacts, b.addArtefact),
	)
	return b.Machine(), err
}

func addAll[T any](tree *btree.Tree[T], add func(T) error) error { return addEach(tree.Scan, add) }

func addEach[T any](scan func(func(T) bool), add func(T) error) (err error) {
	scan(func(item T) bool { err = add(item); return err == nil })
	return err
}

// derived lists everything that is derived from the state, except for timers.
func (m *Machine) derived() []string {
	var lines []string
	note := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	note("counts %v, %d bytes, %s", m.counts, m.bytes, &m.usage)
	m.types.heads.Scan(func(q *queue) bool { note("head %q: %s", q.name, q.best.ID); return true })
	m.running.Scan(func(j *Job) bool { note("running %q: %s", j.Execution().Worker, j.ID); return true })
	m.types.typed.Scan(func(j *Job) bool { note("typed %q %v: %s", j.Type, j.Status, j.ID); return true })
	m.tagged.Scan(func(t tagged) bool { note("label %v %v: %s", t.label, t.job.Status, t.job.ID); return true })
	note("%s", &m.uniques)
	note("%s", &m.waits)
	m.crons.Due(func(c *Cron) bool { note("cron %s at %d", c.Name, c.NextAtMs); return true })
	m.batches.Due(func(b *JobBatch) bool { note("idle %s since %d", b.Id, idleSince(b)); return true })
	m.hooks.Hooks(func(h *outbox.Hook) bool {
		note("hook %s: %d events, %d bytes", h.Name, h.Pending, h.Bytes)
		return true
	})
	note("%s", &m.tokens)
	note("%s%s", &m.requests, &m.claims)
	m.types.limits.keys.Scan(func(k *limitKey) bool {
		note("limit %q: %d run, rule %v, record %v, %d lines", k.name, k.running, k.rule, k.record, len(k.lines))
		return true
	})
	note("%d ids, %d rules, of prefixes %v", m.ids.Len(), m.types.limits.rules, m.types.limits.prefixes)
	for _, name := range slices.Sorted(maps.Keys(m.types.queues)) {
		lines = append(lines, m.types.queues[name].derived()...)
	}
	return lines
}

// scanRetained calls fn for the jobs that retention may remove, with the index of their tree.
func (q *queue) scanRetained(fn func(int, *Job) bool) {
	for i, tree := range q.retained {
		if tree != nil {
			tree.Scan(func(j *Job) bool { return fn(i, j) })
		}
	}
}

func (q *queue) derived() []string {
	lines := []string{fmt.Sprintf("queue %q: %v, %d bytes, %d groups wait, settings %v, permit at %d, retention at %d",
		q.name, q.counts, q.bytes, q.waiting.Len(), q.settings != nil, q.permitAt, q.retainAt)}
	q.scanRetained(func(i int, j *Job) bool { lines = append(lines, fmt.Sprintf("  retained %d %s", i, j.ID)); return true })
	q.order.Scan(func(g *group) bool {
		lines = append(lines, fmt.Sprintf("  in order %q by %s", g.name, g.head.ID))
		return true
	})
	for _, name := range slices.Sorted(maps.Keys(q.groups)) {
		g := q.groups[name]
		lines = append(lines, fmt.Sprintf("  group %q: %d run, turn %d, waits %v, %d jobs in lanes", g.name, g.running, g.turn, g.waiting, g.jobs))
		g.ready.Scan(func(j *Job) bool { lines = append(lines, "    ready "+j.ID); return true })
		for _, key := range slices.Sorted(maps.Keys(g.lanes)) {
			l := g.lanes[key]
			line := fmt.Sprintf("    lane %q, free %v:", l.limits, l.line == nil)
			if l.line != nil {
				line += fmt.Sprintf(" under %q, %d jobs in the line, first %v,", l.line.key.name, l.line.jobs, l == first(l.line.heads))
			}
			l.ready.Scan(func(j *Job) bool { line += " " + j.ID; return true })
			lines = append(lines, line+" by "+l.head.ID)
		}
	}
	return lines
}

func first[T any](tree *btree.Tree[T]) (min T) { min, _ = tree.Min(); return min }

// checkCurrent checks that no index has a job in an old version.
func (m *Machine) checkCurrent() (err error) {
	check := func(name string, j *Job) bool {
		if m.ids.Get(j.ID) != j && err == nil {
			err = fmt.Errorf("%s: job %q is there in an old version", name, j.ID)
		}
		return err == nil
	}
	m.jobs.Scan(func(j *Job) bool { return check("jobs", j) })
	m.types.typed.Scan(func(j *Job) bool { return check("typed", j) })
	m.running.Scan(func(j *Job) bool { return check("running", j) })
	m.tagged.Scan(func(t tagged) bool { return check("tagged", t.job) })
	for _, q := range m.types.queues {
		q.scanRetained(func(_ int, j *Job) bool { return check("retained", j) })
		for _, g := range q.groups {
			g.ready.Scan(func(j *Job) bool { return check("ready", j) })
			for _, l := range g.lanes {
				l.ready.Scan(func(j *Job) bool { return check("lane", j) })
			}
		}
	}
	return err
}

// checkTimers checks that everything that can fall due has one timer, which
// does not stand behind its deadline, and where the thing says.
func (m *Machine) checkTimers(fresh *Machine) error {
	if m.timers.Len() != fresh.timers.Len() {
		return fmt.Errorf("%d timers, anew %d", m.timers.Len(), fresh.timers.Len())
	}
	exact := make(map[timers.Timer]int64)
	fresh.timers.Scan(func(t timers.Timer) bool { exact[timers.Timer{Kind: t.Kind, Key: t.Key}] = t.At; return true })
	var err error
	m.timers.Scan(func(t timers.Timer) bool {
		at, ok := exact[timers.Timer{Kind: t.Kind, Key: t.Key}]
		if stands := m.timerOf(t); !ok || t.At > at || t.At != stands {
			err = fmt.Errorf("timer %+v: due at %d (known: %v), said to stand at %d", t, at, ok, stands)
		}
		return err == nil
	})
	return err
}

func (m *Machine) timerOf(t timers.Timer) int64 {
	switch t.Kind {
	case timers.Due:
		return m.ids.Get(t.Key).RunAt
	case timers.Expiry:
		return m.ids.Get(t.Key).ExpiresAt()
	case timers.Lease:
		return m.ids.Get(t.Key).Execution().TimerAt
	case timers.Timeout:
		return m.ids.Get(t.Key).Det.TimerAt
	case timers.Permit:
		return m.types.queues[t.Key].permitAt
	case timers.Retain:
		return m.types.queues[t.Key].retainAt
	case timers.Resume:
		return m.types.queues[t.Key].resumeAt
	case timers.Limit:
		return m.types.limits.find(t.Key).timerAt
	}
	return m.workers.timerAt[t.Key]
}

func (m *Machine) checkClaims() error {
	of := make(map[string]int)
	m.claims.Records.Scan(func(r *ClaimRecord) bool { of[r.Worker]++; return true })
	for worker, n := range of {
		if n > answers.ClaimsPerWorkerMax {
			return fmt.Errorf("worker %q has %d claims", worker, n)
		}
	}
	return nil
}

func (m *Machine) checkScalars() error {
	for name, q := range m.types.queues {
		_, count := m.types.retention(q, false)
		n := int64(0)
		q.scanRetained(func(i int, _ *Job) bool { n += int64(1 - i/2); return true })
		_, unsettled := m.waits.First()
		if over := n - max(count, 0); over > 0 && !unsettled && m.max.retire == retireMax {
			return fmt.Errorf("queue %q: %d finished jobs too many", name, over)
		}
	}
	stuck := 0
	m.jobs.Scan(func(j *Job) bool {
		for _, on := range j.Details().Waits {
			if s := m.settledAs(on); j.Status == Blocked && job.FailureOf(j, on) == AfterBlock && (s == Dead || s == Cancelled || s == Expired) {
				stuck++
			}
		}
		return true
	})
	if m.Stuck() != stuck {
		return fmt.Errorf("%d jobs are stuck, counted %d", stuck, m.Stuck())
	}
	if floor := tokenFloor(m.meta.Epoch); m.meta.LastToken < floor {
		return fmt.Errorf("token %d is below the floor %d of the epoch", m.meta.LastToken, floor)
	}
	return nil
}

// settledAs returns the status of a job or batch that others wait for; 0 if it was removed.
func (m *Machine) settledAs(on string) Status {
	if batch, ok := job.BatchOf(on); ok {
		return batchStatus(m.batches.Find(&JobBatch{Id: batch}))
	}
	if j := m.ids.Get(on); j != nil {
		return j.Status
	}
	return 0
}

// QuietMs is how long a quiet worker that is dead is kept.
const QuietMs = quietMs

// Claims calls fn for the remembered claims, oldest first, until fn returns false.
func (v *View) Claims(fn func(*ClaimRecord) bool) { v.claims.Scan(fn) }

// Lanes calls fn for the parked lanes, by type, group and limits, until fn returns false.
func (v *View) Lanes(fn func(*ParkedLane) bool) { v.parked.Scan(fn) }

// Turns calls fn for the groups in a rotation, by type and group, until fn returns false.
func (v *View) Turns(fn func(*Turn) bool) { v.turns.Scan(fn) }

// Holds calls fn for the unique-key reservations for a period, by type and key, until fn returns
// false.
func (v *View) Holds(fn func(*Hold) bool) { v.holds.Scan(fn) }
