package fsm_test

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// still is a state without what moves with every sign of life: the LSN, the
// clock, and when a worker, a lease or the broker was last heard of.
type still struct {
	meta    fsm.Meta
	jobs    []*fsm.Job
	workers []fsm.Worker
	claims  []*fsm.ClaimRecord
}

func stillOf(m *fsm.Machine) still {
	v := m.View()
	s := still{meta: v.Meta(), jobs: jobsOf(v)}
	s.meta.LSN, s.meta.Now, s.meta.LeasesFrom = fsm.LSN{}, 0, 0
	for _, j := range s.jobs {
		j.Heartbeat = 0
	}
	v.Workers(func(w *fsm.Worker) bool {
		bare := w.Bare()
		bare.LastSeen = 0
		s.workers = append(s.workers, bare)
		return true
	})
	v.Claims(func(r *fsm.ClaimRecord) bool { s.claims = append(s.claims, r); return true })
	return s
}

// TestRetriedMutations sends every mutation again, some ms later, as a caller
// does whose answer was lost. Unless time itself changed something meanwhile,
// it gets the same answer, and the state stays as it is.
func TestRetriedMutations(t *testing.T) {
	retried := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		m, l := fsm.New(), &log{term: 1}
		w := &workload{now: 1_000_000}
		apply := func(t *rapid.T, muts ...*fsmpb.Mutation) []fsm.Result {
			l.next(t)
			return m.Apply(l.index, l.term, decode(t, entry(t, &fsmpb.Batch{NowMs: w.now, Mutations: muts})))
		}
		t.Repeat(map[string]func(*rapid.T){"retry": func(t *rapid.T) {
			w.now = w.step(t)
			mut := w.mutation(t)
			if c := mut.GetClaim(); c != nil && c.RequestId == "" {
				c.RequestId = fmt.Sprint("once ", l.index)
			}
			first := apply(t, mut)
			w.learn(&fsmpb.Batch{Mutations: []*fsmpb.Mutation{mut}}, first)
			before := stillOf(m)
			w.now = sum(w.now, int64(roll(t, 3, "later")))
			apply(t)
			if !reflect.DeepEqual(stillOf(m), before) {
				return // something fell due
			}
			again := apply(t, mut)
			if after := stillOf(m); !reflect.DeepEqual(after, before) {
				t.Fatalf("the state changed\nfrom %+v\n  to %+v", before, after)
			}
			if want, ok := repeated(m, mut, first[0]); ok {
				compareRepeated(t, mut, again[0], want)
			}
			retried[fmt.Sprintf("%T %v", mut.Op, again[0].Code)]++
		}})
	})
	for _, kind := range []string{"Enqueue ok", "Claim duplicate", "Complete duplicate", "Fail duplicate", "Release duplicate"} {
		if retried["*fsmpb.Mutation_"+kind] == 0 {
			t.Errorf("no %s was seen: %v", kind, retried)
		}
	}
}

// repeated is the answer due to a repetition; ok is false where it depends on
// what has no memory.
func repeated(m *fsm.Machine, mut *fsmpb.Mutation, first fsm.Result) (want answer, ok bool) {
	want = answers([]fsm.Result{first})[0]
	switch mut.Op.(type) {
	case *fsmpb.Mutation_WorkerDead:
		want.code = fsm.NotFound
	case *fsmpb.Mutation_Enqueue:
		if first.Code == fsm.OK {
			for i := range want.codes {
				want.codes[i] = fsm.Duplicate
			}
		}
	case *fsmpb.Mutation_Claim:
		if len(first.Jobs) > 0 {
			want.code = fsm.Duplicate
		}
	case *fsmpb.Mutation_Complete, *fsmpb.Mutation_Fail, *fsmpb.Mutation_Release:
		l := reportedOn(mut)[0]
		if first.Code == fsm.OK {
			want.code = fsm.Duplicate
		}
		// By name alone a job that was given back is nobody's, and a job that
		// is not retained is forgotten.
		return want, l.Token != 0 && (m.Job(l.JobId) != nil || first.Code == fsm.NotFound)
	}
	return want, true
}

func compareRepeated(t *rapid.T, mut *fsmpb.Mutation, result fsm.Result, want answer) {
	got := answers([]fsm.Result{result})[0]
	for _, jobs := range [][]*fsm.Job{got.jobs, want.jobs} {
		for _, j := range jobs {
			if j != nil {
				j.Heartbeat = 0
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, repeated:\n got %v\nwant %v", mut, show(got), show(want))
	}
}
