package fsm

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
	"osqueue/fsm/timers"
)

// Bounds of limits by key.
const (
	LimitRulesMax = 10_000
	parkMax       = 1_000 // lanes that the claims of one entry move
	usesMax       = 1_000_000
)

// limits has the rules of limits by key and the keys in use. lane.go has the jobs that wait for them.
type limits struct {
	records *btree.Tree[*Limit]      // by name
	parked  *btree.Tree[*ParkedLane] // by type, group, then limits
	keys    *btree.Tree[*limitKey]   // by name
	probe   limitKey                 // for find

	rules    int
	prefixes [LimitNameMax + tenants.Max + 2]int // patterns with rules that end with "*", by the length of their prefix
}

// limitKey is a key in use: jobs run or wait under it, or it has a record. A pattern with a rule is here as well, though nothing
// runs under it. Except for the record it is derived.
type limitKey struct {
	name    string
	record  *Limit     // nil: none
	rule    *LimitRule // in force; nil: none
	running int
	lines   map[*queue]*group
	timerAt int64
}

func newLimits() limits {
	return limits{
		records: btree.New(func(a, b *Limit) bool { return a.Name < b.Name }),
		parked:  btree.New(byLanePlace),
		keys:    btree.New(func(a, b *limitKey) bool { return a.name < b.name }),
	}
}

// find returns a key in use, or nil.
func (l *limits) find(name string) *limitKey {
	l.probe.name = name
	return l.keys.Find(&l.probe)
}

// key returns a key in use, and makes it if there is none.
func (l *limits) key(name string) *limitKey {
	k := l.find(name)
	if k == nil {
		name = strings.Clone(name)
		k = &limitKey{name: name, rule: l.ruleOf(name).GetRule(), lines: make(map[*queue]*group)}
		l.keys.Set(k)
	}
	return k
}

// ruleOf returns the record of the pattern whose rule is in force for a key, or nil.
func (l *limits) ruleOf(key string) *Limit {
	if r := l.records.Find(&Limit{Name: key}); r.GetRule() != nil {
		return r
	}
	own := len(key) - len(bareKey(key)) // bytes that name the tenant
	for n := len(key); n >= own; n-- {
		if l.prefixes[n] > 0 {
			if r := l.records.Find(&Limit{Name: key[:n] + "*"}); r.GetRule() != nil {
				return r
			}
		}
	}
	return nil
}

// setRule replaces the rule of a pattern; nil takes it away.
func (l *limits) setRule(pattern string, rule *LimitRule) {
	old := l.records.Find(&Limit{Name: pattern})
	if old.GetRule() != nil {
		l.countRule(pattern, -1)
	}
	if rule != nil {
		l.countRule(pattern, +1)
	}
	l.store(&Limit{
		Name: pattern, Rule: rule, Level: old.GetLevel(), LevelAtMs: old.GetLevelAtMs(), HeldUntilMs: old.GetHeldUntilMs(), OpensAtMs: old.GetOpensAtMs(),
	})
}

// countRule adds n to the number of rules.
func (l *limits) countRule(pattern string, n int) {
	l.rules += n
	if isPrefix(pattern) {
		l.prefixes[len(pattern)-1] += n
	}
}

// isPrefix reports whether a pattern names more than one key.
func isPrefix(pattern string) bool { return strings.HasSuffix(pattern, "*") }

// validRule reports whether a pattern can have the rule; nil is none.
func validRule(r *LimitRule) bool { return min(r.GetRunning(), r.GetRateMilli(), r.GetBurst()) >= 0 }

// store stores a record; one that says nothing is removed.
func (l *limits) store(r *Limit) {
	if r.Rule == nil && r.LevelAtMs == 0 && r.HeldUntilMs == 0 && r.OpensAtMs == 0 {
		l.records.Delete(r)
	} else {
		l.records.Set(r)
	}
}

// change changes the record of a key.
func (l *limits) change(k *limitKey, how func(*Limit)) {
	r := k.record
	r = &Limit{
		Name: k.name, Rule: r.GetRule(), Level: r.GetLevel(), LevelAtMs: r.GetLevelAtMs(), HeldUntilMs: r.GetHeldUntilMs(), OpensAtMs: r.GetOpensAtMs(),
	}
	how(r)
	l.store(r)
	k.record = l.records.Find(r)
}

// bucket returns the permits of the key. Its rate is 0 if it has none.
func (k *limitKey) bucket() bucket {
	b := bucket{rateMilli: k.rule.GetRateMilli(), burst: k.rule.GetBurst(), level: k.record.GetLevel(), at: k.record.GetLevelAtMs()}
	if b.at == 0 {
		b.level = b.full()
	}
	return b
}

// full reports whether no other job may run under the key.
func (k *limitKey) full() bool {
	return k.rule.GetRunning() > 0 && int64(k.running) >= k.rule.Running
}

// until returns when the key is not held and has a permit, or 0 if that is so now.
func (k *limitKey) until(now int64) (at int64) {
	if held := k.record.GetHeldUntilMs(); held > now || held == math.MaxInt64 {
		at = held
	}
	if b := k.bucket(); b.rateMilli > 0 && b.levelAt(now) < permit {
		at = max(at, b.reaches(permit), now+1) // a time can saturate
	}
	return at
}

// open reports whether the lines of the key take part in claims.
func (k *limitKey) open() bool { return k.record.GetOpensAtMs() == 0 && !k.full() }

// blocking returns the first of the keys that has no room, or nil.
func (t *types) blocking(keys []string) *limitKey {
	for _, name := range keys {
		if k := t.limits.find(name); k != nil && (k.full() || k.until(t.meta.NowMs) != 0) {
			return k
		}
	}
	return nil
}

// review brings up to date what follows from the state of a key: when its lines open, its timer, and the heads of its lines.
func (t *types) review(k *limitKey) {
	if t.building {
		return
	}
	opens := int64(0)
	if len(k.lines) > 0 {
		opens = k.until(t.meta.NowMs)
	}
	if opens != k.record.GetOpensAtMs() {
		t.limits.change(k, func(r *Limit) { r.OpensAtMs = opens })
	}
	t.refreshLines(k)
	if k.running == 0 && len(k.lines) == 0 && k.record == nil {
		t.limits.keys.Delete(k)
	}
}

func (t *types) refreshLines(k *limitKey) {
	at := k.nextTime()
	if at == math.MaxInt64 { // it never comes
		at = 0
	}
	t.timers.Move(&k.timerAt, at, timers.Limit, k.name)
	for q, line := range k.lines {
		t.refresh(q, line)
		if line.head != nil {
			t.arrive(q, min(line.jobs, capacity(k.rule.GetRunning(), k.running, k.bucket(), t.meta.NowMs)))
		}
	}
}

// nextTime returns when the lines of the key open, or else when its bucket is full and its hold over; 0: nothing changes by itself.
func (k *limitKey) nextTime() int64 {
	r := k.record
	if r.GetOpensAtMs() != 0 || r.GetLevelAtMs() == 0 {
		return cmp.Or(r.GetOpensAtMs(), r.GetHeldUntilMs())
	}
	b := k.bucket()
	return max(r.HeldUntilMs, b.reaches(b.full()))
}

// limiting decides about limits by key.
type limiting struct{ *entry }

// timeCame is called by the timer of a key.
func (e limiting) timeCame(name string) {
	e.firings--
	k := e.types.limits.find(name)
	k.timerAt = 0
	e.types.limits.change(k, func(r *Limit) {
		if r.OpensAtMs == 0 {
			r.Level, r.LevelAtMs, r.HeldUntilMs = 0, 0, 0
		}
		r.OpensAtMs = 0
	})
	e.types.review(k)
}

// countKeys adds n to the number of running jobs of each key of a job.
func (t *types) countKeys(j *Job, n int) {
	for _, name := range j.Options().Limits {
		k := t.limits.key(name)
		if k.running += n; n < 0 {
			t.review(k)
		}
	}
}

// takeKeys takes a permit of each key of a job that was claimed, and tries its lane again.
func (t *types) takeKeys(q *queue, j *Job) {
	keys := j.Options().Limits
	for _, name := range keys {
		k := t.limits.key(name)
		if b := k.bucket(); b.rateMilli > 0 && (k.record != nil || t.limits.records.Len() < usesMax) {
			t.limits.change(k, func(r *Limit) { r.Level, r.LevelAtMs = b.levelAt(t.meta.NowMs)-permit, t.meta.NowMs })
		}
		t.review(k)
	}
	if l := q.group(j.InGroup()).lanes[laneKey(keys)]; l != nil {
		t.moveLane(q, l, t.blocking(keys))
	}
}

// set replaces the rule of a pattern. It takes time in proportion to the keys in use that match it.
func (e limiting) set(op *fsmpb.SetLimit) Result {
	l := &e.types.limits
	had := l.records.Find(&Limit{Name: op.Pattern}).GetRule() != nil
	switch {
	case op.Rule == nil && !had:
		return Result{Code: NotFound}
	case op.Rule != nil && !had && l.rules >= LimitRulesMax:
		return Result{Code: TooManyLimits}
	}
	pattern := strings.Clone(op.Pattern)
	l.setRule(pattern, fsmpb.Clone(op.Rule))
	l.key(pattern)
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	keys := []*limitKey{l.find(pattern)}
	if isPrefix {
		l.keys.Ascend(&limitKey{name: prefix}, func(k *limitKey) bool {
			keys = append(keys, k)
			return strings.HasPrefix(k.name, prefix)
		})
	}
	for _, k := range keys {
		e.types.changeRule(k)
	}
	e.events = append(e.events, Event{Kind: LimitSet, Name: pattern})
	return Result{}
}

// changeRule looks for the rule of a key again.
func (t *types) changeRule(k *limitKey) {
	old := k.rule
	k.record, k.rule = t.limits.records.Find(&Limit{Name: k.name}), t.limits.ruleOf(k.name).GetRule()
	if old == k.rule && k.record == nil {
		return
	}
	if old.GetRateMilli() != k.rule.GetRateMilli() || old.GetBurst() != k.rule.GetBurst() {
		t.limits.change(k, func(r *Limit) { r.Level, r.LevelAtMs = 0, 0 })
	}
	t.review(k)
}

// throttle holds a key.
func (e limiting) throttle(op *fsmpb.ThrottleLimit) Result {
	name := op.Key
	if op.Lease != nil {
		j, code := e.held(op.Worker, op.Owner, op.Lease, NoEnd)
		if code != OK {
			return Result{Code: code, Jobs: one(j)}
		}
		i := slices.IndexFunc(j.Options().Limits, func(k string) bool { return bareKey(k) == bareKey(name) })
		if i < 0 {
			return Result{Code: NotFound}
		}
		name = j.Options().Limits[i]
	}
	k := e.types.limits.key(name)
	until := op.UntilMs
	if op.Lease != nil {
		until = max(until, k.record.GetHeldUntilMs())
	}
	if until <= e.meta.NowMs && until < math.MaxInt64 {
		until = 0
	}
	if until != k.record.GetHeldUntilMs() {
		e.types.limits.change(k, func(r *Limit) { r.HeldUntilMs = until })
	}
	e.types.review(k)
	return Result{}
}

// bareKey returns a key without its tenant.
func bareKey(key string) string { return tenants.NameFor(tenants.Of(key), key) }

// LimitUse is the rule in force for a key or pattern, and what is used of a key.
type LimitUse struct {
	Name             string
	Pattern          string     // that has the rule
	Rule             *LimitRule // nil: none
	Running, Waiting int        // jobs that run with the key, and that wait under it
	HeldUntil        int64      // ms; 0: it is not held
}

// LimitUse returns the use of a key or pattern, whether it is in use or not.
func (m *Machine) LimitUse(name string) LimitUse {
	k := &limitKey{name: name} // find is for one caller at a time
	return m.useOf(cmp.Or(m.types.limits.keys.Find(k), k))
}

// LimitUses returns the use of up to n keys and patterns, in the order of names, from one on.
func (m *Machine) LimitUses(from string, n int) (uses []LimitUse) {
	m.types.limits.keys.Ascend(&limitKey{name: from}, func(k *limitKey) bool {
		uses = append(uses, m.useOf(k))
		return len(uses) < n
	})
	return uses
}

func (m *Machine) useOf(k *limitKey) LimitUse {
	r := m.types.limits.ruleOf(k.name)
	u := LimitUse{Name: k.name, Pattern: r.GetName(), Rule: r.GetRule(), Running: k.running, HeldUntil: k.record.GetHeldUntilMs()}
	for _, line := range k.lines {
		u.Waiting += line.jobs
	}
	if u.HeldUntil <= m.meta.NowMs {
		u.HeldUntil = 0
	}
	return u
}

// Limits calls fn for the records of patterns and keys, in the order of names, until fn returns false.
func (v *View) Limits(fn func(*Limit) bool) { v.limits.Scan(fn) }

// Limit returns the record of a pattern or key, or nil.
func (v *View) Limit(name string) *Limit { return v.limits.Find(&Limit{Name: name}) }

// WaitsForLimit returns the key under which an unclaimed job waits, or "".
func (v *View) WaitsForLimit(j *Job) string {
	if o := j.Options(); j.Status == Unclaimed && len(o.Limits) > 0 {
		return v.parked.Find(&ParkedLane{Type: j.Type, Group: o.Group, Limits: o.Limits}).GetKey()
	}
	return ""
}
