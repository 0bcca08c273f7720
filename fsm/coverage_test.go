package fsm_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestWorkloadMeetsEverything counts what random logs make happen: what they
// never do the other tests do not check. The naive model is enough for that.
func TestWorkloadMeetsEverything(t *testing.T) {
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		naive, w, l := newModel(), &workload{now: 1_000_000}, &log{term: 1}
		apply := func(t *rapid.T, b *fsmpb.Batch) {
			l.next(t)
			results := naive.apply(fsm.LSN{Term: l.term, Index: l.index}, decode(t, entry(t, b)))
			w.learn(b, results)
			for i, mut := range b.Mutations {
				tallyAnswer(met, mut, results[i])
			}
			for _, e := range naive.events {
				met[fmt.Sprintf("event %d %v→%v", e.kind, e.from, e.to)]++
			}
			tallyJobs(met, naive.jobs)
		}
		t.Repeat(map[string]func(*rapid.T){
			"entry":    func(t *rapid.T) { apply(t, w.batch(t)) },
			"entry2":   func(t *rapid.T) { apply(t, w.batch(t)) },
			"takeover": func(t *rapid.T) { apply(t, w.takeover(t)) },
		})
	})
	for _, line := range slices.Sorted(maps.Keys(met)) {
		t.Log(met[line], line)
	}
	for want := range strings.Lines(mustMeet) {
		if want = strings.TrimSpace(want); met[want] == 0 {
			t.Errorf("never met: %s", want)
		}
	}
}

func tallyAnswer(met map[string]int, mut *fsmpb.Mutation, r fsm.Result) {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", mut.Op), "*fsmpb.Mutation_")
	if mut.Request != nil && r.LSN != (fsm.LSN{}) {
		kind = "again " + kind
	}
	met[kind+" "+r.Code.String()]++
	if mut.GetHeartbeat() == nil && mut.GetChange() == nil && mut.GetGroup() == nil {
		return
	}
	for _, c := range r.Codes {
		met[kind+" item "+c.String()]++
	}
	if r.Count > 0 {
		met[kind+" by filter"]++
	}
	if r.Next != (fsm.Place{}) {
		met[kind+" goes on"]++
	}
}

func tallyJobs(met map[string]int, jobs []*fsm.Job) {
	for _, j := range jobs {
		for _, a := range j.Details().History {
			met["history "+a.End.String()]++
		}
		if len(j.Details().History) > 2 {
			met["long history"]++
		}
		if j.Status == fsm.Cancelled {
			met["cancelled, attempt "+j.AttemptEnd.String()]++
		}
	}
}

// mustMeet is what even a few hundred logs must have in them.
const mustMeet = `Enqueue ok
Enqueue no_id
Enqueue id_taken
Enqueue no_such_job
Enqueue cycle
Enqueue no_such_batch
Enqueue payload_too_large
Enqueue too_many_jobs
Enqueue too_many_bytes
Claim ok
Claim duplicate
again Claim duplicate
Complete ok
Complete timed_out
Complete lease_expired
Fail ok
Release ok
again Enqueue duplicate
Enqueue request_conflict
Change ok
Change item wrong_status
Change item unique_taken
Change item duplicate
Change by filter
Change goes on
SetQueue ok
SetQueue not_found
PutCron ok
PauseCron ok
DeleteCron ok
FireCron ok
FireCron not_due
TriggerCron ok
TriggerCron duplicate
TriggerCron id_taken
Group ok
history failed
history lease_expired
history timed_out
long history
cancelled, attempt failed
cancelled, attempt released
cancelled, attempt timed_out`
