package fsm_test

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// parkingsMax is how many lanes claims may move in one entry.
const parkingsMax = 1000

func byLimitName(a, b *fsm.Limit) int { return strings.Compare(a.Name, b.Name) }

func byLane(a, b *fsm.ParkedLane) int {
	return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Group, b.Group), slices.Compare(a.Limits, b.Limits))
}

// limit is the record of a name, which may be empty.
func (m *model) limit(name string) *fsm.Limit {
	if l := found(m.limits, func(l *fsm.Limit) bool { return l.Name == name }); l != nil {
		return l
	}
	return &fsm.Limit{Name: name}
}

// changeLimit replaces the record of a name by a changed copy; an empty one is no record.
func (m *model) changeLimit(name string, how func(*fsm.Limit)) {
	l := fsmpb.Copy(m.limit(name))
	how(l)
	m.limits = put(m.limits, l, byLimitName)
	m.limits = slices.DeleteFunc(m.limits, func(l *fsm.Limit) bool {
		return l.Rule == nil && l.Level == 0 && l.LevelAtMs == 0 && l.HeldUntilMs == 0 && l.OpensAtMs == 0
	})
}

// tenantAndName are the two parts of a key of the state.
func tenantAndName(key string) (tenant, name string) {
	tenant, name, owned := strings.Cut(key, "\x00")
	if !owned {
		return "", key
	}
	return tenant, name
}

// ruleOf is the rule in force for a key.
func (m *model) ruleOf(key string) (rule *fsmpb.LimitRule) {
	longest := -1
	tenant, name := tenantAndName(key)
	for _, l := range m.limits {
		if l.Rule == nil {
			continue
		}
		if l.Name == key {
			return l.Rule
		}
		of, pattern := tenantAndName(l.Name)
		prefix, many := strings.CutSuffix(pattern, "*")
		if many && of == tenant && strings.HasPrefix(name, prefix) && len(prefix) > longest {
			longest, rule = len(prefix), l.Rule
		}
	}
	return rule
}

func (m *model) setLimit(op *fsmpb.SetLimit) fsm.Result {
	had, rules := m.limit(op.Pattern).Rule != nil, 0
	for _, l := range m.limits {
		if l.Rule != nil {
			rules++
		}
	}
	switch {
	case op.Rule == nil && !had:
		return fsm.Result{Code: fsm.NotFound}
	case op.Rule != nil && !had && rules >= fsm.LimitRulesMax:
		return fsm.Result{Code: fsm.TooManyLimits}
	}
	before := m.copied()
	m.changeLimit(op.Pattern, func(l *fsm.Limit) { l.Rule = op.Rule })
	for _, l := range m.limits {
		was, is := before.ruleOf(l.Name), m.ruleOf(l.Name)
		if was.GetRateMilli() != is.GetRateMilli() || was.GetBurst() != is.GetBurst() {
			m.changeLimit(l.Name, func(l *fsm.Limit) { l.Level, l.LevelAtMs = 0, 0 })
		}
	}
	m.events = append(m.events, event{kind: fsm.LimitSet, name: op.Pattern})
	return fsm.Result{}
}

func (m *model) throttleLimit(op *fsmpb.ThrottleLimit) fsm.Result {
	key, until := op.Key, op.UntilMs
	if op.Lease != nil {
		j := m.job(op.Lease.JobId)
		if code := verdict(j, op.Worker, op.Owner, op.Lease.Token, fsm.NoEnd); code != fsm.OK {
			res := fsm.Result{Code: code}
			if j != nil {
				res.Jobs = []*fsm.Job{j}
			}
			return res
		}
		_, name := tenantAndName(op.Key)
		i := slices.IndexFunc(j.Options().Limits, func(own string) bool { _, n := tenantAndName(own); return n == name })
		if i < 0 {
			return fsm.Result{Code: fsm.NotFound}
		}
		key = j.Options().Limits[i]
		until = max(until, m.limit(key).HeldUntilMs)
	}
	if until <= m.meta.NowMs && until < math.MaxInt64 {
		until = 0
	}
	m.changeLimit(key, func(l *fsm.Limit) { l.HeldUntilMs = until })
	return fsm.Result{}
}

// permits is the level of a key's bucket now, and that of a full one.
func (m *model) permits(key string) (level, full int64) {
	rule, l := m.ruleOf(key), m.limit(key)
	full = min(max(rule.GetBurst(), 1), burstMax) * permit
	if l.Level == 0 && l.LevelAtMs == 0 {
		return full, full
	}
	now := new(big.Int).Sub(big.NewInt(m.meta.NowMs), big.NewInt(l.LevelAtMs))
	now.Mul(now, big.NewInt(rule.GetRateMilli()))
	now.Add(now, big.NewInt(l.Level))
	return min(clamped(now), full), full
}

// filledAt is when a key's bucket, which is not full, has a level.
func (m *model) filledAt(key string, level int64) int64 {
	l := m.limit(key)
	if l.Level >= level {
		return l.LevelAtMs
	}
	return sum(l.LevelAtMs, 1+(level-l.Level-1)/m.ruleOf(key).GetRateMilli())
}

// hasRoom is whether one more job may start under a key.
func (m *model) hasRoom(key string) bool {
	limit := m.ruleOf(key).GetRunning()
	running := m.running(func(j *fsm.Job) bool { return slices.Contains(j.Options().Limits, key) })
	return m.startsNow(key) && (limit <= 0 || running < limit)
}

// startsNow is hasRoom without the running jobs.
func (m *model) startsNow(key string) bool {
	level, _ := m.permits(key)
	held := m.limit(key).HeldUntilMs
	return held <= m.meta.NowMs && held < math.MaxInt64 && (m.ruleOf(key).GetRateMilli() <= 0 || level >= permit)
}

// fullKey is the first key without room; "" is none.
func (m *model) fullKey(limits []string) string {
	for _, key := range limits {
		if !m.hasRoom(key) {
			return key
		}
	}
	return ""
}

// sameLane reports whether two unclaimed jobs wait in one lane.
func sameLane(a, b *fsm.Job) bool {
	x, y := a.Options(), b.Options()
	return a.Type == b.Type && x.Group == y.Group && len(x.Limits) > 0 && slices.Equal(x.Limits, y.Limits)
}

// lane has the unclaimed jobs of the lane of j.
func (m *model) lane(j *fsm.Job) (jobs []*fsm.Job) {
	for _, o := range m.jobs {
		if o.Status == fsm.Unclaimed && sameLane(o, j) {
			jobs = append(jobs, o)
		}
	}
	return jobs
}

// parkedUnder is the key under which the lane of an unclaimed job is parked; "": it is free.
func (m *model) parkedUnder(j *fsm.Job) string {
	return found(m.parked, func(p *fsm.ParkedLane) bool {
		return p.Type == j.Type && p.Group == j.Options().Group && slices.Equal(p.Limits, j.Options().Limits)
	}).GetKey()
}

// waits is whether a job waits in its group.
func (m *model) waits(j *fsm.Job) bool {
	return j != nil && j.Status == fsm.Unclaimed && m.parkedUnder(j) == ""
}

// relane lets a job that is new (no old), changed, or removed (no j) leave its lane and come to one. A job
// that was edited does both, also in the same lane.
func (m *model) relane(old, j *fsm.Job) {
	alone := func(in *fsm.Job) bool {
		return !slices.ContainsFunc(m.lane(in), func(o *fsm.Job) bool { return o.Seq != in.Seq })
	}
	if old != nil && old.Status == fsm.Unclaimed && alone(old) {
		m.setLane(old, "")
	}
	if j != nil && j.Status == fsm.Unclaimed && alone(j) {
		m.setLane(j, m.fullKey(j.Options().Limits))
	}
}

// setLane parks the lane of a job under a key, or frees it. Turns are the caller's.
func (m *model) setLane(j *fsm.Job, key string) {
	p := &fsm.ParkedLane{Type: j.Type, Group: j.Options().Group, Limits: j.Options().Limits, Key: key}
	if m.parked = slices.DeleteFunc(slices.Clone(m.parked), func(o *fsm.ParkedLane) bool { return byLane(o, p) == 0 }); key != "" {
		m.parked = put(m.parked, p, byLane)
	}
}

// tryLane parks the lane of a job under the first of its keys without room, or frees it.
func (m *model) tryLane(j *fsm.Job) {
	group := j.Options().Group
	waited := slices.Contains(m.waitingGroups(j.Type), group)
	m.setLane(j, m.fullKey(j.Options().Limits))
	m.takeTurn(j.Type, group, waited)
}

// move is what a claim does with the best job's lane before the job may be claimed.
func (m *model) move(j *fsm.Job) {
	m.parkings++
	switch was := m.parkedUnder(j); {
	case m.fullKey(j.Options().Limits) == "":
		m.did = append(m.did, "a lane returns to a full group")
	case was == "":
		m.did = append(m.did, "a claim parks a lane")
	default:
		m.did = append(m.did, "a claim moves a lane to another key")
	}
	m.tryLane(j)
}

// takeKeys takes a permit of each key of a job that was claimed.
func (m *model) takeKeys(j *fsm.Job) {
	for _, key := range j.Options().Limits {
		if m.ruleOf(key).GetRateMilli() > 0 {
			level, _ := m.permits(key)
			m.changeLimit(key, func(l *fsm.Limit) { l.Level, l.LevelAtMs = level-permit, m.meta.NowMs })
		}
	}
}

// openLines are the keys whose lines in a type are open, by name.
func (m *model) openLines(typ string) (keys []string) {
	for _, p := range m.parked {
		if p.Type == typ && m.hasRoom(p.Key) && !slices.Contains(keys, p.Key) {
			keys = append(keys, p.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// headOfLine is the best job of the lanes of a type that are parked under a key.
func (m *model) headOfLine(typ, key string) (head *fsm.Job) {
	for _, j := range m.jobs {
		if j.Type == typ && j.Status == fsm.Unclaimed && m.parkedUnder(j) == key && (head == nil || m.before(j, head)) {
			head = j
		}
	}
	return head
}

// opensAt is when the lines of a key open, of themselves.
func (m *model) opensAt(key string) int64 {
	parked := slices.ContainsFunc(m.parked, func(p *fsm.ParkedLane) bool { return p.Key == key })
	if !parked || m.startsNow(key) {
		return 0
	}
	at := m.limit(key).HeldUntilMs
	if m.limit(key).LevelAtMs != 0 {
		at = max(at, m.filledAt(key, permit))
	}
	return at
}

// reopen sets when lines open, as it is after an entry.
func (m *model) reopen() {
	names := []string{}
	for _, l := range m.limits {
		names = append(names, l.Name)
	}
	for _, p := range m.parked {
		names = append(names, p.Key)
	}
	for _, name := range names {
		m.changeLimit(name, func(l *fsm.Limit) { l.OpensAtMs = m.opensAt(name) })
	}
}

// idleAt is when a key's bucket is full and its hold has ended; false: it has neither.
func (m *model) idleAt(l *fsm.Limit) (at int64, ok bool) {
	_, full := m.permits(l.Name)
	at = l.HeldUntilMs
	if l.LevelAtMs != 0 {
		at = max(at, m.filledAt(l.Name, full))
	}
	return at, l.LevelAtMs != 0 || l.HeldUntilMs != 0
}

// forgetLimits drops the buckets and holds of keys that are idle. A time at the end of the clock never comes.
func (m *model) forgetLimits() {
	for _, l := range m.limits {
		if at, ok := m.idleAt(l); ok && at <= m.meta.NowMs && at < math.MaxInt64 && m.opensAt(l.Name) == 0 {
			m.changeLimit(l.Name, func(l *fsm.Limit) { l.Level, l.LevelAtMs, l.HeldUntilMs = 0, 0, 0 })
		}
	}
}
