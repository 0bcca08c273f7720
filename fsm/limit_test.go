package fsm_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func setLimit(pattern string, rule *fsmpb.LimitRule) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: &fsmpb.SetLimit{Pattern: pattern, Rule: rule}}}
}

func throttleLimit(key string, until int64, worker string, l *fsmpb.Lease) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ThrottleLimit{ThrottleLimit: &fsmpb.ThrottleLimit{Key: key, UntilMs: until, Worker: worker, Lease: l}}}
}

// withLimits enqueues a job with limits.
func withLimits(limits ...string) *fsmpb.Mutation { return limitedJob("t", "", "limited", limits...) }

func limitedJob(typ, group, id string, limits ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{
		Id: id, Type: typ, Options: &fsmpb.Options{Group: group, Limits: limits},
	}}}}}
}

// keyUse is what a key's starts have used, as the test counts it.
type keyUse struct {
	rule      *fsmpb.LimitRule
	starts    []int64
	heldUntil int64
}

// TestLimitsAreKept runs random logs under rules that do not change, and looks at the jobs after each entry: no key has
// more running jobs or starts than its rule allows, none starts while the key is held, and a claim that gets nothing leaves
// no job that all rules let start.
func TestLimitsAreKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, w, l := fsm.New(), &workload{now: 1_000_000}, &log{term: 1}
		use := map[string]*keyUse{
			"a": {rule: &fsmpb.LimitRule{Running: 2}}, "ab": {rule: &fsmpb.LimitRule{RateMilli: 50_000, Burst: 2}},
			"b":       {rule: &fsmpb.LimitRule{Running: 3, RateMilli: 100_000}},
			"t1\x00a": {rule: &fsmpb.LimitRule{Running: 1}}, "t1\x00b": {rule: &fsmpb.LimitRule{}},
		}
		rules := []*fsmpb.Mutation{ // by prefixes that are not those of other tenants
			setLimit("*", use["b"].rule), setLimit("a*", use["ab"].rule), setLimit("a", use["a"].rule), setLimit("t1\x00a*", use["t1\x00a"].rule),
		}
		endless := func() bool { return m.Now() > math.MaxInt64-1_000_000 } // times saturate there
		apply := func(t *rapid.T, b *fsmpb.Batch) []fsm.Result {
			l.next(t)
			b.Mutations = slices.DeleteFunc(b.Mutations, changesRules)
			t.Logf("entry %v", b)
			results := m.Apply(l.index, l.term, decode(t, entry(t, b)))
			w.learn(b, results)
			if !endless() {
				checkUse(t, m, b, results, use)
			}
			return results
		}
		l.next(t)
		m.Apply(l.index, l.term, decode(t, entry(t, &fsmpb.Batch{NowMs: w.now, Mutations: rules})))
		asks := func(t *rapid.T) {
			typ := pick(t, jobTypes[1:], "type")
			r := apply(t, &fsmpb.Batch{NowMs: w.now, Mutations: []*fsmpb.Mutation{claim("asks", 1, typ)}})
			if len(r[0].Jobs) == 0 && !endless() {
				checkNoneStarts(t, m, typ, use)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"entry":  func(t *rapid.T) { apply(t, w.batch(t)) },
			"entry2": func(t *rapid.T) { apply(t, w.batch(t)) },
			"asks":   asks,
			"asks2":  asks,
		})
	})
}

// changesRules reports whether a mutation changes what the test expects to stay.
func changesRules(m *fsmpb.Mutation) bool {
	return m.GetSetLimit() != nil || m.GetSetQueue() != nil || slices.ContainsFunc(m.GetGroup().GetMutations(), func(m *fsmpb.Mutation) bool {
		return changesRules(m) || m.GetThrottleLimit() != nil
	})
}

// checkUse notes the starts and holds of an entry, and checks them. Within an entry holds and starts are in no known order,
// so that a hold counts from the next one.
func checkUse(t *rapid.T, m *fsm.Machine, b *fsmpb.Batch, results []fsm.Result, use map[string]*keyUse) {
	now := m.Now()
	for _, e := range m.Events() {
		if e.Kind != fsm.JobChanged || e.Job.Status != fsm.InProgress || e.From == fsm.InProgress {
			continue
		}
		for _, key := range e.Job.Options().Limits {
			u := use[key]
			u.starts = append(u.starts, now)
			throttled := slices.ContainsFunc(b.Mutations, func(m *fsmpb.Mutation) bool { return m.GetThrottleLimit() != nil })
			if now < u.heldUntil && !throttled {
				t.Fatalf("%s starts at %d, but %q is held until %d", e.Job.ID, now, key, u.heldUntil)
			}
		}
	}
	running := map[string]int64{}
	m.View().Jobs(fsm.InProgress, 0, func(j *fsm.Job) bool {
		for _, key := range j.Options().Limits {
			running[key]++
		}
		return true
	})
	for key, u := range use {
		if u.rule.Running > 0 && running[key] > u.rule.Running {
			t.Fatalf("%d jobs with %q run, at most %d may", running[key], key, u.rule.Running)
		}
		if level := u.level(now); level < 0 {
			t.Fatalf("%q: the bucket is at %d after %v", key, level, u.starts)
		}
	}
	for i, mut := range b.Mutations {
		if op := mut.GetThrottleLimit(); op != nil && results[i].Code == fsm.OK {
			noteHold(m, op, use)
		}
	}
}

// noteHold takes the hold that the machine has: what it may be is the model's matter.
func noteHold(m *fsm.Machine, op *fsmpb.ThrottleLimit, use map[string]*keyUse) {
	_, name := tenantAndName(op.Key)
	for key, u := range use {
		if _, own := tenantAndName(key); own == name {
			u.heldUntil = 0
		}
	}
	m.View().Limits(func(r *fsm.Limit) bool {
		if _, own := tenantAndName(r.Name); own == name && use[r.Name] != nil {
			use[r.Name].heldUntil = r.HeldUntilMs
		}
		return true
	})
}

// level is that of the bucket at a time, from all starts.
func (u *keyUse) level(now int64) int64 {
	if u.rule.RateMilli == 0 {
		return 0
	}
	full := max(u.rule.Burst, 1) * permit
	level, at := full, int64(0)
	fill := func(to int64) {
		if passed := to - at; passed < full { // more fills every bucket of the test
			level += passed * u.rule.RateMilli
		} else {
			level = full
		}
		level, at = min(level, full), to
	}
	for _, start := range u.starts {
		fill(start)
		if level -= permit; level < 0 {
			return level
		}
	}
	fill(now)
	return level
}

// checkNoneStarts fails if a job of a type could have been claimed.
func checkNoneStarts(t *rapid.T, m *fsm.Machine, typ string, use map[string]*keyUse) {
	running := map[string]int64{}
	m.View().Jobs(fsm.InProgress, 0, func(j *fsm.Job) bool {
		for _, key := range j.Options().Limits {
			running[key]++
		}
		return true
	})
	now := m.Now()
	m.View().Jobs(fsm.Unclaimed, 0, func(j *fsm.Job) bool {
		blocked := slices.ContainsFunc(j.Options().Limits, func(key string) bool {
			u := use[key]
			return now < u.heldUntil || u.rule.Running > 0 && running[key] >= u.rule.Running || u.rule.RateMilli > 0 && u.level(now) < permit
		})
		if j.Type == typ && !blocked {
			t.Fatalf("job %s %q could start, but a claim got nothing", j.ID, j.Options().Limits)
		}
		return true
	})
}

// TestRoomWakesAClaim: each way in which a key gets room names the type of a job that waits for it.
func TestRoomWakesAClaim(t *testing.T) {
	one := &fsmpb.LimitRule{Running: 1}
	for name, c := range map[string]struct {
		rule *fsmpb.LimitRule
		hold int64
		now  int64
		room *fsmpb.Mutation
	}{
		"a job completes":   {one, 0, 1001, complete("w", "first", 0)},
		"a job is released": {one, 0, 1001, release("w", "first", 0)},
		"a worker is dead":  {one, 0, 1001, workerDead("w")},
		"a lease ends":      {one, 0, 32_000, nil},
		"a permit comes":    {&fsmpb.LimitRule{RateMilli: 100_000}, 0, 1010, nil},
		"a hold ends":       {&fsmpb.LimitRule{}, 1500, 1500, nil},
		"it is lifted":      {&fsmpb.LimitRule{}, 1500, 1001, throttleLimit("k", 0, "", nil)},
		"more may run":      {one, 0, 1001, setLimit("k", &fsmpb.LimitRule{Running: 2})},
		"a higher rate":     {&fsmpb.LimitRule{RateMilli: 1}, 0, 1001, setLimit("k", &fsmpb.LimitRule{RateMilli: 2})},
		"no rule":           {one, 0, 1001, setLimit("k", nil)},
	} {
		for _, restored := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restored ", restored), func(t *testing.T) {
				m := fsm.New()
				apply(t, m, 1000, registerWorker("w"), setLimit("k", c.rule), limitedJob("t", "", "first", "k"), claim("w", 1, "t"),
					throttleLimit("k", c.hold, "", nil), limitedJob("u", "g", "second", "k"), limitedJob("u", "", "third", "k", "l"))
				if r := apply(t, m, 1000, claim("w", 1, "u")); len(r[0].Jobs) > 0 || m.Ready([]string{"u"}) {
					t.Fatalf("%v was claimed, ready %v", r[0].Jobs, m.Ready([]string{"u"}))
				}
				if restored {
					m = copyOf(t, m)
				}
				var muts []*fsmpb.Mutation
				if c.room != nil {
					muts = append(muts, c.room)
				}
				if at, ok := m.NextDeadline(nil); c.room == nil && (!ok || at > c.now) {
					t.Fatalf("the next deadline is %d (%v), want at most %d", at, ok, c.now)
				}
				apply(t, m, c.now, muts...)
				woken := map[string]int{}
				m.Wakeups(func(typ string, n int) { woken[typ] = n })
				if woken["u"] == 0 || !m.Ready([]string{"u"}) {
					t.Fatalf("woken %v, ready %v", woken, m.Ready([]string{"u"}))
				}
				if r := apply(t, m, c.now, claim("w", 1, "u")); len(r[0].Jobs) != 1 || r[0].Jobs[0].ID != "second" {
					t.Fatalf("claimed %v, want the job that waited longest", r[0].Jobs)
				}
			})
		}
	}
}

// A lane whose key gets room while its group runs as many jobs as it may waits in the group again.
func TestALaneReturnsToAFullGroup(t *testing.T) {
	m, perGroup := fsm.New(), int64(1)
	apply(t, m, 1000, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", MaxRunningPerGroup: &perGroup}}},
		limitedJob("t", "g", "first"), claim("w", 1), throttleLimit("k", 2000, "", nil), limitedJob("t", "g", "second", "k"))
	if n := len(collected(m.View().Lanes)); n != 1 {
		t.Fatalf("%d lanes are parked, want 1", n)
	}
	if r := apply(t, m, 2000, claim("w", 1)); len(r[0].Jobs) > 0 || len(collected(m.View().Lanes)) > 0 {
		t.Fatalf("claimed %v, parked %v", r[0].Jobs, collected(m.View().Lanes))
	}
	if r := apply(t, m, 2001, complete("w", "first", 0), claim("w", 1)); len(r[1].Jobs) != 1 {
		t.Fatal("the job of the lane was not claimed when its group had room")
	}
}

// TestAnEntryMovesBoundedLanes claims where more lanes than an entry moves are in the way of a job that can start.
func TestAnEntryMovesBoundedLanes(t *testing.T) {
	m := fsm.New()
	for i := range parkingsMax + 500 {
		apply(t, m, 1000, limitedJob("t", fmt.Sprint("g", i), fmt.Sprint("j", i), "k"))
	}
	apply(t, m, 1000, enqueueType("t", "free"), throttleLimit("k", 5000, "", nil))
	for i, want := range []int{0, 1} {
		r := apply(t, m, 1000, claim("w", 2, "t"), claim("w", 2, "t"))
		woken := 0
		m.Wakeups(func(_ string, n int) { woken += n })
		parked := 0
		m.View().Lanes(func(*fsm.ParkedLane) bool { parked++; return true })
		if got := len(r[0].Jobs) + len(r[1].Jobs); got != want || parked != []int{parkingsMax, parkingsMax + 500}[i] || woken == 0 && i == 0 {
			t.Errorf("entry %d: %d jobs, want %d; %d lanes are parked, %d claims are woken", i, got, want, parked, woken)
		}
		if err := m.CheckIndexes(); err != nil {
			t.Fatal(err)
		}
	}
}

// At the end of the clock a key that will never open costs an entry nothing, and hinders nothing else.
func TestLimitsAtTheEndOfTheClock(t *testing.T) {
	m := fsm.New()
	apply(t, m, math.MaxInt64, setLimit("k", &fsmpb.LimitRule{RateMilli: 1}), limitedJob("t", "", "a", "k"), limitedJob("t", "", "b", "k"), claim("w", 2))
	apply(t, m, math.MaxInt64)
	if late := m.PutOff(); len(late) > 0 {
		t.Errorf("an entry without mutations leaves work behind: %v", late)
	}
	if r := apply(t, m, math.MaxInt64, claim("w", 1)); len(r[0].Jobs) > 0 {
		t.Errorf("%v was claimed without a permit", r[0].Jobs)
	}
}

// TestKeysAreOfTheirTenant: a rule or hold of one tenant is none of another, and a worker's hold is of the job's key.
func TestKeysAreOfTheirTenant(t *testing.T) {
	m := fsm.New()
	of := func(tenant string, m *fsmpb.Mutation) *fsmpb.Mutation {
		m = proto.CloneOf(m)
		m.Tenant = tenant
		return m
	}
	apply(t, m, 1000, of("t1", setLimit("k*", &fsmpb.LimitRule{Running: 1})), setLimit("*", &fsmpb.LimitRule{Running: 2}))
	for _, tenant := range []string{"t1", "t2", ""} {
		for i := range 3 {
			apply(t, m, 1000, of(tenant, limitedJob("t"+tenant, "", fmt.Sprint(tenant, i), "k1")))
		}
		want := map[string]int{"t1": 1, "t2": 3, "": 2}[tenant]
		if r := apply(t, m, 1000, claim("w", 3, "t"+tenant)); len(r[0].Jobs) != want {
			t.Errorf("tenant %q: %d jobs run, want %d", tenant, len(r[0].Jobs), want)
		}
	}
	hold := func(id string) *fsmpb.Mutation {
		return throttleLimit("k1", 2000, "w", &fsmpb.Lease{JobId: id, Token: m.Job(id).Execution().Token})
	}
	for _, mut := range []*fsmpb.Mutation{hold("t20"), of("t1", hold("t20"))} {
		mut.GetThrottleLimit().Worker = "w"
		if r := apply(t, m, 1000, mut); mut.Tenant == "" && r[0].Code != fsm.OK {
			t.Error(r[0].Code)
		}
	}
	held := map[string]int64{}
	m.View().Limits(func(r *fsm.Limit) bool { held[r.Name] = r.HeldUntilMs; return true })
	if held["t2\x00k1"] != 2000 || held["k1"] != 0 || held["t1\x00k1"] != 0 {
		t.Errorf("held are %v", held)
	}
}

// limited is a machine with each kind of record about limits.
func limited(t testing.TB) *fsm.Machine {
	m := fsm.New()
	apply(t, m, 1000, setLimit("k", &fsmpb.LimitRule{Running: 1}), setLimit("r*", &fsmpb.LimitRule{RateMilli: 100_000, Burst: 2}))
	for i, id := range []string{"a", "b", "c", "d"} {
		apply(t, m, 1000, limitedJob("t", "g", id, "k"), limitedJob("t", "", "r"+id, "r1"), limitedJob("u", "g", "kr"+id, "k", "r1"), claim("w", uint32(i)))
	}
	apply(t, m, 1001, throttleLimit("r1", 3000, "", nil), throttleLimit("h", 4000, "", nil))
	return m
}

func TestSnapshotOfLimits(t *testing.T) {
	m := limited(t)
	data := snapshot(t, m)
	back, err := fsm.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := back.CheckIndexes(); err != nil || !bytes.Equal(snapshot(t, back), data) {
		t.Fatalf("the state changed on its way: %v", err)
	}
	lanes, opens, buckets, holds := 0, 0, 0, 0
	m.View().Lanes(func(*fsm.ParkedLane) bool { lanes++; return true })
	m.View().Limits(func(r *fsm.Limit) bool {
		opens, buckets, holds = opens+int(min(r.OpensAtMs, 1)), buckets+int(min(r.LevelAtMs, 1)), holds+int(min(r.HeldUntilMs, 1))
		return true
	})
	if min(lanes, opens, buckets, holds) == 0 {
		t.Fatalf("the test has %d lanes, %d keys that will open, %d buckets, %d holds", lanes, opens, buckets, holds)
	}
	for _, now := range []int64{1002, 1015, 3000, 3020, 9000} {
		for _, m := range []*fsm.Machine{m, back} {
			apply(t, m, now, complete("w", "a", 0), claim("w", 2))
		}
		if m.View().Hash() != back.View().Hash() {
			t.Fatalf("at %d a restart made a difference", now)
		}
	}
}

// A state with records about limits that no machine has made is refused.
func TestLimitsThatNoStateHas(t *testing.T) {
	lane := func(limits []string, key string) *fsm.ParkedLane {
		return &fsm.ParkedLane{Type: "t", Limits: limits, Key: key}
	}
	both := []string{"a", "b"}
	for name, c := range map[string]struct {
		limits []*fsm.Limit
		lanes  []*fsm.ParkedLane
	}{
		"lane without jobs":     {nil, []*fsm.ParkedLane{lane([]string{"a"}, "a")}},
		"lane of no type":       {nil, []*fsm.ParkedLane{{Type: "u", Limits: both, Key: "a"}}},
		"lane of no group":      {nil, []*fsm.ParkedLane{{Type: "t", Group: "g", Limits: both, Key: "a"}}},
		"lane without limits":   {nil, []*fsm.ParkedLane{lane(nil, "a")}},
		"lane under no key":     {nil, []*fsm.ParkedLane{lane(both, "")}},
		"lane under another":    {nil, []*fsm.ParkedLane{lane(both, "c")}},
		"lane of joined limits": {nil, []*fsm.ParkedLane{lane([]string{"a*b"}, "a*b")}},
		"lane twice":            {nil, []*fsm.ParkedLane{lane(both, "a"), lane(both, "a")}},
		"lane under two keys":   {nil, []*fsm.ParkedLane{lane(both, "a"), lane(both, "b")}},
		"limit twice":           {[]*fsm.Limit{{Name: "a", HeldUntilMs: 9}, {Name: "a", HeldUntilMs: 9}}, nil},
		"limit of nothing":      {[]*fsm.Limit{{Name: "a"}}, nil},
		"limit without a name":  {[]*fsm.Limit{{HeldUntilMs: 9}}, nil},
		"hold of a pattern":     {[]*fsm.Limit{{Name: "a*", HeldUntilMs: 9}}, nil},
		"negative rule":         {[]*fsm.Limit{{Name: "a", Rule: &fsmpb.LimitRule{RateMilli: -1}}}, nil},
		"negative hold":         {[]*fsm.Limit{{Name: "a", HeldUntilMs: -1}}, nil},
		"negative, with a rule": {[]*fsm.Limit{{Name: "a", Rule: &fsmpb.LimitRule{Running: 1}, HeldUntilMs: -1}}, nil},
		"negative level":        {[]*fsm.Limit{{Name: "a", Rule: &fsmpb.LimitRule{RateMilli: 1}, Level: -1, LevelAtMs: 9}}, nil},
	} {
		b := fsm.NewBuilder(&fsm.Meta{NowMs: 5, LastSeq: 1, Settings: fsm.DefaultSettings()})
		if err := b.AddJob(&fsm.Job{Seq: 1, ID: "j", Type: "t", Status: fsm.Unclaimed, Opt: &fsm.Options{Limits: both}}); err != nil {
			t.Fatal(err)
		}
		var err error
		for _, l := range c.limits {
			err = errors.Join(err, b.AddLimit(l))
		}
		for _, l := range c.lanes {
			err = errors.Join(err, b.AddLane(l))
		}
		if !errors.Is(err, fsm.ErrState) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// What is left of a key for no reason does no harm: the machine forgets it.
func TestNeedlessLimitsAreForgotten(t *testing.T) {
	for name, l := range map[string]*fsm.Limit{
		"opens without lines":   {Name: "a", OpensAtMs: 9},
		"bucket without a rate": {Name: "a", Level: 5, LevelAtMs: 9},
		"hold that has ended":   {Name: "a", HeldUntilMs: 1},
	} {
		b := fsm.NewBuilder(&fsm.Meta{NowMs: 5, Settings: fsm.DefaultSettings()})
		if err := b.AddLimit(l); err != nil {
			continue // refused: no harm either
		}
		m := b.Machine()
		for _, now := range []int64{5, 9, 10} {
			apply(t, m, now)
		}
		m.View().Limits(func(l *fsm.Limit) bool { t.Errorf("%s: %v is still there", name, l); return true })
	}
}
