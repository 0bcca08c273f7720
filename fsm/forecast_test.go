package fsm_test

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// forecastOf returns the forecast for an entry.
func forecastOf(m *fsm.Machine, nowMs int64, muts ...*fsmpb.Mutation) map[string]int {
	found := make(map[string]int)
	f := m.NewForecast(nowMs, func(jobType string, n int) { found[jobType] += n })
	for _, mut := range muts {
		f.Add(mut)
	}
	return found
}

func newJobs(jobs ...*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}

func TestForecastOfNewJobs(t *testing.T) {
	const now = 1000
	m := fsm.New()
	limit, paused := int64(2), true
	unique := &fsmpb.Unique{Key: "k", Scope: uint32(fsm.UniqueActive)}
	key := &fsmpb.Request{Key: "key", Fingerprint: []byte("f")}
	first := newJobs(&fsmpb.NewJob{Id: "old", Type: "t", Unique: unique})
	first.Request = key
	m.Apply(1, 1, &fsmpb.Batch{NowMs: now, Mutations: []*fsmpb.Mutation{
		first,
		{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "limited", MaxRunning: &limit}}},
		{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "paused", Paused: &paused}}},
	}})
	repeated := newJobs(&fsmpb.NewJob{Id: "new", Type: "t"})
	repeated.Request = key
	for name, c := range map[string]struct {
		muts []*fsmpb.Mutation
		want map[string]int
	}{
		"new jobs of two types": {
			[]*fsmpb.Mutation{newJobs(&fsmpb.NewJob{Id: "a", Type: "t"}, &fsmpb.NewJob{Id: "b", Type: "t"}, &fsmpb.NewJob{Id: "c"})},
			map[string]int{"t": 2, "": 1},
		},
		"later":           {[]*fsmpb.Mutation{newJobs(&fsmpb.NewJob{Id: "a", Type: "t", RunAtMs: now + 1})}, nil},
		"due":             {[]*fsmpb.Mutation{newJobs(&fsmpb.NewJob{Id: "a", Type: "t", RunAtMs: now})}, map[string]int{"t": 1}},
		"after another":   {[]*fsmpb.Mutation{newJobs(&fsmpb.NewJob{Id: "a", Type: "t", After: []string{"old"}})}, nil},
		"a known id":      {[]*fsmpb.Mutation{newJobs(&fsmpb.NewJob{Id: "old", Type: "t"})}, nil},
		"a known key":     {[]*fsmpb.Mutation{newJobs(&fsmpb.NewJob{Id: "a", Type: "t", Unique: unique})}, nil},
		"a known request": {[]*fsmpb.Mutation{repeated}, nil},
		"a paused type":   {[]*fsmpb.Mutation{newJobs(&fsmpb.NewJob{Id: "a", Type: "paused"})}, nil},
		"a limited type": {
			[]*fsmpb.Mutation{
				newJobs(&fsmpb.NewJob{Id: "a", Type: "limited"}), newJobs(&fsmpb.NewJob{Id: "b", Type: "limited"}),
				newJobs(&fsmpb.NewJob{Id: "c", Type: "limited"}, &fsmpb.NewJob{Id: "d", Type: "limited"}),
			},
			map[string]int{"limited": 2},
		},
	} {
		if got := forecastOf(m, now, c.muts...); !maps.Equal(got, c.want) {
			t.Errorf("%s: forecast %v, want %v", name, got, c.want)
		}
	}
}

func TestForecastOfReturnedJobs(t *testing.T) {
	m := fsm.New()
	limit := int64(1)
	res := m.Apply(1, 1, &fsmpb.Batch{NowMs: 1000, Mutations: []*fsmpb.Mutation{
		{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", MaxRunning: &limit}}},
		newJobs(&fsmpb.NewJob{Id: "a", Type: "t"}, &fsmpb.NewJob{Id: "dead", Type: "u"}),
		claim("w", 2),
	}})
	running, dead := res[2].Jobs[0], res[2].Jobs[1]
	m.Apply(2, 1, one(fail("w", dead.ID, dead.Execution().Token, "", true)))
	token := running.Execution().Token
	failAfter := func(ms int64, permanent bool) *fsmpb.Mutation {
		m := fail("w", running.ID, token, "", permanent)
		m.GetFail().RetryDelayMs = &ms
		return m
	}
	for i, c := range []struct {
		mut  *fsmpb.Mutation
		want string
	}{
		{release("w", running.ID, token), "map[t:1]"},
		{&fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{release("w", running.ID, token)}}}}, "map[t:1]"},
		{release("w", running.ID, token+1), "map[]"},
		{failAfter(0, false), "map[t:1]"},
		{failAfter(5, false), "map[]"},
		{failAfter(0, true), "map[]"},
		{changeOf(fsm.RetryJobs, "dead", "none", "a"), "map[u:1]"},
	} {
		if got := fmt.Sprint(forecastOf(m, 1000, c.mut)); got != c.want {
			t.Errorf("case %d: forecast %s, want %s", i, got, c.want)
		}
	}
}

// TestForecastIsBounded: the forecast for a mutation never names more jobs than the mutation
// does, and never changes the machine.
func TestForecastIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, w, l := fsm.New(), &workload{now: 1_000_000}, &log{term: 1}
		for range rapid.IntRange(1, 20).Draw(t, "entries") {
			b := w.batch(t)
			before := m.View().Sum()
			for _, mut := range b.Mutations {
				most := namedJobs(mut)
				n := 0
				for _, of := range forecastOf(m, b.NowMs, mut) {
					n += of
				}
				if n > most {
					t.Fatalf("%d jobs are forecast for %v", n, mut)
				}
			}
			if m.View().Sum() != before {
				t.Fatal("the forecast changed the machine")
			}
			l.next(t)
			w.learn(b, m.Apply(l.index, l.term, decode(t, entry(t, b))))
		}
	})
}

// namedJobs returns how many jobs a mutation names.
func namedJobs(mut *fsmpb.Mutation) int {
	n := max(len(mut.GetEnqueue().GetJobs()), len(mut.GetChange().GetIds()), 1)
	for _, part := range mut.GetGroup().GetMutations() {
		n += namedJobs(part)
	}
	return n
}
