package fsm_test

import (
	"cmp"
	"math/big"
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// permit is one claim in the units of a rate's level.
const (
	permit   = 1_000_000
	burstMax = 1_000_000_000
)

func (m *model) claim(op *fsmpb.Claim) fsm.Result {
	m.seen(op.Worker)
	for _, r := range m.claims {
		if op.RequestId != "" && r.Worker == op.Worker && r.RequestId == op.RequestId {
			res := fsm.Result{Code: fsm.Duplicate}
			for i, id := range r.JobIds {
				res.Jobs = append(res.Jobs, m.stillHeld(id, r.FirstToken+uint64(i), op.Owner)...)
			}
			return res
		}
	}
	var res fsm.Result
	if m.isQuiet(op.Worker) {
		return res
	}
	for most := min(max(op.Max, 1), fsm.ClaimJobsMax); len(res.Jobs) < int(most); {
		j := m.best(op.Types)
		if j == nil {
			break
		}
		if m.mayExpire(j) && j.Options().StartBefore <= m.meta.NowMs {
			m.expire(j)
			continue
		}
		returns := m.parkedUnder(j) != "" && m.groupIsFull(j.Type, j.Options().Group)
		switch {
		case m.fullKey(j.Options().Limits) == "" && !returns:
			res.Jobs = append(res.Jobs, m.lease(j, op))
			continue
		case m.parkings == parkingsMax:
			return m.claimed(op, res)
		}
		m.move(j)
	}
	return m.claimed(op, res)
}

// claimed remembers the answer to a claim.
func (m *model) claimed(op *fsmpb.Claim, res fsm.Result) fsm.Result {
	if op.RequestId != "" && len(res.Jobs) > 0 {
		m.remember(op, res.Jobs)
	}
	return res
}

func (m *model) stillHeld(id string, token, owner uint64) (jobs []*fsm.Job) {
	for _, j := range m.jobs {
		if j.ID == id && j.Execution().Token == token && j.Status == fsm.InProgress && !foreign(j, owner) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// best is the job that a claim of these types gets.
func (m *model) best(types []string) (best *fsm.Job) {
	for _, typ := range m.types() {
		if len(types) > 0 && (typ == "" || !slices.Contains(types, typ)) {
			continue
		}
		j := m.bestOfType(typ)
		if j != nil && (best == nil || claimedBefore(j, best)) {
			best = j
		}
	}
	return best
}

// types are the types that have jobs, by name.
func (m *model) types() (types []string) {
	for _, j := range m.jobs {
		if !slices.Contains(types, j.Type) {
			types = append(types, j.Type)
		}
	}
	slices.Sort(types)
	return types
}

// claimedBefore is the order of the best jobs of types.
func claimedBefore(a, b *fsm.Job) bool {
	return a.Priority > b.Priority || a.Priority == b.Priority && a.Seq < b.Seq
}

// before is the order within a group.
func (m *model) before(a, b *fsm.Job) bool {
	x, y := m.aged(a), m.aged(b)
	return x > y || x == y && a.Seq < b.Seq
}

// aged is the priority of a waiting job with what it has gained: one each time the clock passed a multiple of the ageing.
func (m *model) aged(j *fsm.Job) int64 {
	every := m.settingsOf(j.Type).AgingMs
	if every <= 0 {
		return int64(j.Priority)
	}
	return int64(j.Priority) + m.meta.NowMs/every - max(j.CreatedAt, j.RunAt)/every
}

func (m *model) bestOfType(typ string) (best *fsm.Job) {
	if !m.open(typ) {
		return nil
	}
	for _, group := range m.waitingGroups(typ) {
		if m.groupIsFull(typ, group) {
			continue
		}
		head := m.head(typ, group)
		if best == nil || m.aged(head) > m.aged(best) ||
			m.aged(head) == m.aged(best) && m.turnBefore(typ, group, best.Options().Group) {
			best = head
		}
	}
	var first *fsm.Job // of lines, which have no turn, and come before groups that have none
	for _, key := range m.openLines(typ) {
		if head := m.headOfLine(typ, key); first == nil || m.aged(head) > m.aged(first) {
			first = head
		}
	}
	if first != nil && (best == nil || m.aged(first) >= m.aged(best)) {
		return first
	}
	return best
}

// open is whether the type as a whole lets one more job run.
func (m *model) open(typ string) bool {
	q := m.settingsOf(typ)
	running := m.running(func(j *fsm.Job) bool { return j.Type == typ })
	return !q.Paused && (q.MaxRunning <= 0 || running < q.MaxRunning) && (q.RateMilli <= 0 || m.level(q) >= permit)
}

func (m *model) groupIsFull(typ, group string) bool {
	limit := m.settingsOf(typ).MaxRunningPerGroup
	running := m.running(func(j *fsm.Job) bool { return j.Type == typ && j.Options().Group == group })
	return group != "" && limit > 0 && running >= limit
}

func (m *model) running(counts func(*fsm.Job) bool) (n int64) {
	for _, j := range m.jobs {
		if j.Status == fsm.InProgress && counts(j) {
			n++
		}
	}
	return n
}

// level returns the level of a rate now.
func (m *model) level(q *fsm.QueueSettings) int64 {
	level := new(big.Int).Sub(big.NewInt(m.meta.NowMs), big.NewInt(q.LevelAtMs))
	level.Mul(level, big.NewInt(q.RateMilli))
	level.Add(level, big.NewInt(q.Level))
	return min(clamped(level), fullLevel(q))
}

// fullLevel is the level at which no more permits are kept.
func fullLevel(q *fsm.QueueSettings) int64 {
	return min(max(q.Burst, 1), burstMax) * permit
}

func (m *model) lease(old *fsm.Job, op *fsmpb.Claim) *fsm.Job {
	m.meta.LastToken++
	q, line := m.settingsOf(old.Type), m.parkedUnder(old)
	j := m.change(old, func(j *fsm.Job) {
		j.Status, j.AttemptEnd, j.Exec.Worker, j.Exec.Token = fsm.InProgress, fsm.NoEnd, op.Worker, m.meta.LastToken
		j.Attempts = int32(min(int64(j.Attempts)+1, 1<<31-1))
		j.Exec.ClaimedAt, j.Exec.Heartbeat = m.meta.NowMs, m.meta.NowMs
		j.Exec.HeldMs = firstPositive(op.LeaseMs, j.Execution().LeaseMs, q.LeaseMs, m.meta.Settings.LeaseMs)
		details(j, func(d *fsm.Details) {
			d.TimeoutMs = firstPositive(j.Options().TimeoutMs, q.TimeoutMs)
			d.Progress, d.ProgressAt, d.Owner = fsm.Progress{}, 0, op.Owner
		})
		j.Exec.Instance = op.Instance
		j.Exec.Unconfirmed = op.Confirms && j.Attempts >= m.maxAttempts(j) && j.Details().GivenBack < 3
	})
	if q.RateMilli > 0 {
		taken := fsmpb.Copy(q)
		taken.Level, taken.LevelAtMs = m.level(q)-permit, m.meta.NowMs
		m.queues = put(m.queues, taken, byQueueName)
	}
	m.takeKeys(j)
	m.rotate(j) // of its own group, also if the job came from a line
	if slices.ContainsFunc(m.jobs, func(o *fsm.Job) bool {
		return m.waits(o) && o.Type == j.Type && o.Options().Group == j.Options().Group && o.Priority > j.Priority
	}) {
		m.did = append(m.did, "an aged job goes first")
	}
	if line != "" {
		m.did = append(m.did, "a line gives a job")
	}
	if len(m.lane(j)) > 0 {
		m.tryLane(j)
	}
	return j
}

// rotate sends the group of a job that was claimed to the end.
func (m *model) rotate(j *fsm.Job) {
	group := j.Options().Group
	waiting := m.waitingGroups(j.Type)
	if slices.Contains(waiting, group) && len(waiting) > 1 {
		m.giveTurn(j.Type, group)
	}
}

func (m *model) remember(op *fsmpb.Claim, jobs []*fsm.Job) {
	r := &fsm.ClaimRecord{Worker: op.Worker, RequestId: op.RequestId, ClaimedAtMs: m.meta.NowMs, FirstToken: jobs[0].Execution().Token}
	for _, j := range jobs {
		r.JobIds = append(r.JobIds, j.ID)
	}
	m.claims = append(slices.Clone(m.claims), r)
	own := func(r *fsm.ClaimRecord) bool { return r.Worker == op.Worker }
	n := 0
	for _, r := range m.claims {
		if own(r) {
			n++
		}
	}
	if n > fsm.ClaimsPerWorkerMax {
		i := slices.IndexFunc(m.claims, own)
		m.claims = slices.Delete(slices.Clone(m.claims), i, i+1)
	}
}

// waitingGroups are the groups of a type that have unclaimed jobs outside of parked lanes, by name.
func (m *model) waitingGroups(typ string) (groups []string) {
	for _, j := range m.jobs {
		if group := j.Options().Group; j.Type == typ && m.waits(j) && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

// head is the job of a group that is claimed first.
func (m *model) head(typ, group string) (head *fsm.Job) {
	for _, j := range m.jobs {
		if j.Type == typ && m.waits(j) && j.Options().Group == group && (head == nil || m.before(j, head)) {
			head = j
		}
	}
	return head
}

func byTypeAndGroup(a, b *fsm.Turn) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group))
}

// turn is a group's place in the rotation; 0 if it has none.
func (m *model) turn(typ, group string) uint64 {
	if t := found(m.turns, func(t *fsm.Turn) bool { return t.Type == typ && t.Group == group }); t != nil {
		return t.Turn
	}
	return 0
}

func (m *model) turnBefore(typ, a, b string) bool {
	return cmp.Or(cmp.Compare(m.turn(typ, a), m.turn(typ, b)), cmp.Compare(a, b)) < 0
}

// giveTurn puts a group at the end of the rotation.
func (m *model) giveTurn(typ, group string) {
	m.meta.LastTurn++
	m.turns = put(m.turns, &fsm.Turn{Type: typ, Group: group, Turn: m.meta.LastTurn}, byTypeAndGroup)
}

// retakeTurn lets lanes and groups begin to wait, and cease to, by what became of a job.
func (m *model) retakeTurn(old, j *fsm.Job) {
	one := cmp.Or(old, j)
	typ, group := one.Type, one.Options().Group
	waited := old != nil && m.waits(old) || slices.ContainsFunc(m.jobs, func(o *fsm.Job) bool {
		return o.Seq != one.Seq && o.Type == typ && o.Options().Group == group && m.waits(o)
	})
	m.relane(old, j)
	m.takeTurn(typ, group, waited)
}

// takeTurn gives a group a turn that has begun to wait, and takes it from one that waits no longer.
func (m *model) takeTurn(typ, group string, waited bool) {
	groups := m.waitingGroups(typ)
	switch waits := slices.Contains(groups, group); {
	case waited && !waits:
		m.turns = slices.DeleteFunc(slices.Clone(m.turns), func(t *fsm.Turn) bool { return t.Type == typ && t.Group == group })
	case !waited && waits && len(groups) > 1:
		for _, other := range groups {
			if other != group && m.turn(typ, other) == 0 {
				m.giveTurn(typ, other)
			}
		}
		m.giveTurn(typ, group)
	}
}
