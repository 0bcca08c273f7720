package fsm_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// still is a state without the fields that every heartbeat changes: the LSN, the clock,
// and the last times of workers, leases and the broker.
type still struct {
	meta    *fsm.Meta
	jobs    []*fsm.Job
	workers []string
	claims  []*fsm.ClaimRecord
	holds   []*fsm.Hold
	batches []*fsm.JobBatch
	tokens  int
}

func stillOf(m *fsm.Machine) still {
	v := m.View()
	s := still{meta: m.Meta(), jobs: jobsOf(v)}
	s.meta.Term, s.meta.Index, s.meta.NowMs, s.meta.LeasesFromMs = 0, 0, 0, 0
	for _, j := range s.jobs {
		j.Exec.Heartbeat = 0
	}
	for w := range v.Workers("") {
		bare := fsmpb.Copy(w)
		bare.LastSeenMs = 0
		s.workers = append(s.workers, bare.String())
	}
	s.claims, s.holds = collected(v.Claims), collected(v.Holds)
	s.batches, s.tokens = collected(v.Batches("")), v.TokenCount()
	return s
}

// TestRetriedMutations sends every mutation again, some ms later, as a caller
// does whose answer was lost. Unless time itself changed something meanwhile,
// it gets the same answer, and the state stays as it is.
func TestRetriedMutations(t *testing.T) {
	t.Parallel()
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
			mut := repeatable(t, w.mutation(t), l.index)
			first := apply(t, mut)
			w.learn(&fsmpb.Batch{Mutations: []*fsmpb.Mutation{mut}}, first)
			before := stillOf(m)
			w.now = sum(w.now, int64(roll(t, 3, "later")))
			apply(t)
			if !reflect.DeepEqual(stillOf(m), before) {
				return // something fell due
			}
			if mut.Request != nil && first[0].Code.Done() && !remembers(m, mut.Request.Key) {
				return // the settings keep no requests, or it was a claim that got nothing
			}
			if mut.GetClaim() != nil && len(first[0].Jobs) == 0 {
				return // time may have brought a permit
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
	for _, kind := range []string{"Enqueue ok", "Claim duplicate", "Complete duplicate", "Fail duplicate", "Release duplicate", "Suspend duplicate", "StoreStep duplicate"} {
		if retried["*fsmpb.Mutation_"+kind] == 0 && !testing.Short() { // a short run is too short to see them all
			t.Errorf("no %s was seen: %v", kind, retried)
		}
	}
}

// repeatable names a mutation so that its repetition is known as one: what has
// no memory of its own gets a request key, and the rest now and then.
func repeatable(t *rapid.T, mut *fsmpb.Mutation, index uint64) *fsmpb.Mutation {
	if op := mut.GetRegisterBroker(); op == nil && (!hasMemory(mut) || once(t, 4, "with key")) {
		mut.Request = &fsmpb.Request{Key: fmt.Sprint("once ", index), Fingerprint: []byte("f")}
	}
	if op := mut.GetClaim(); op != nil && op.RequestId == "" {
		op.RequestId = fmt.Sprint("once ", index)
	}
	return mut
}

// hasMemory is whether the state itself tells that a mutation was applied. Of
// jobs that are unique, in a batch or behind others it does not: what decided
// on them then may be another by now.
func hasMemory(mut *fsmpb.Mutation) bool {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		return op.Enqueue.NewBatch == nil && !slices.ContainsFunc(op.Enqueue.Jobs, func(n *fsmpb.NewJob) bool {
			return n.Options.GetUnique() != nil || n.Options.GetBatch() != "" || len(n.Options.GetAfter())+len(n.Options.GetAfterBatches()) > 0
		})
	case *fsmpb.Mutation_Heartbeat:
		return !slices.ContainsFunc(op.Heartbeat.Leases, func(l *fsmpb.Lease) bool { return l.Progress != nil })
	case *fsmpb.Mutation_Claim, *fsmpb.Mutation_Complete, *fsmpb.Mutation_Fail, *fsmpb.Mutation_Release,
		*fsmpb.Mutation_StoreStep, *fsmpb.Mutation_Suspend, *fsmpb.Mutation_RegisterWorker, *fsmpb.Mutation_WorkerDead:
		return true
	}
	return false
}

func remembers(m *fsm.Machine, key string) (found bool) {
	m.View().Requests(func(r *fsm.RequestRecord) bool { found = r.Key == key; return !found })
	return found
}

// repeated is the answer due to a repetition; ok is false where it depends on
// what has no memory.
func repeated(m *fsm.Machine, mut *fsmpb.Mutation, first fsm.Result) (want answer, ok bool) {
	want = answers([]fsm.Result{first})[0]
	if mut.Request != nil && first.Code.Done() {
		return want, false // what is remembered of it is held against the model
	}
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_WorkerDead:
		if op.WorkerDead.Instance != 0 {
			return want, false // another instance of the name may be registered
		}
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
	case *fsmpb.Mutation_Heartbeat:
		// A later lease of the same job may have confirmed its attempt.
		last := make(map[string]*fsm.Job)
		for _, j := range want.jobs {
			if j != nil {
				last[j.ID] = j
			}
		}
		for i, j := range want.jobs {
			if j != nil {
				want.jobs[i] = last[j.ID]
			}
		}
	case *fsmpb.Mutation_StoreStep:
		if first.Code == fsm.OK {
			want.code = fsm.Duplicate
		}
	case *fsmpb.Mutation_Complete, *fsmpb.Mutation_Fail, *fsmpb.Mutation_Release, *fsmpb.Mutation_Suspend:
		l := reportedOn(mut)[0]
		if first.Code == fsm.OK {
			want.code = fsm.Duplicate
		}
		// Without a token the machine cannot match a released job, and it forgets a job
		// that is not retained.
		return want, l.Token != 0 && (m.Job(l.JobId) != nil || first.Code == fsm.NotFound)
	}
	return want, true
}

func compareRepeated(t *rapid.T, mut *fsmpb.Mutation, result fsm.Result, want answer) {
	got := answers([]fsm.Result{result})[0]
	for _, jobs := range [][]*fsm.Job{got.jobs, want.jobs} {
		for _, j := range jobs {
			if j != nil {
				j.Exec.Heartbeat = 0
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, repeated:\n got %v\nwant %v", mut, show(got), show(want))
	}
}
