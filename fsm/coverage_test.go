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
//
// Some of it is rare, a handful in two hundred logs, so that a round of a few
// hundred misses one thing now and then. Rounds go on until all is met; what
// all of them never do, the generators cannot do.
func TestWorkloadMeetsEverything(t *testing.T) {
	t.Parallel()
	const rounds = 60 // with -short, a round has few logs
	met := map[string]int{}
	missing := unmet(met)
	for round := 0; round < rounds && len(missing) > 0; round++ {
		rapid.Check(t, func(t *rapid.T) { countLog(t, met) })
		missing = unmet(met)
	}
	for _, line := range slices.Sorted(maps.Keys(met)) {
		t.Log(met[line], line)
	}
	// Last, so that a page of counts above does not hide them.
	for _, want := range missing {
		t.Errorf("never met in %d rounds: %s", rounds, want)
	}
}

// unmet lists the lines of mustMeet that were not met yet.
func unmet(met map[string]int) []string {
	var missing []string
	for want := range strings.Lines(mustMeet) {
		if want = strings.TrimSpace(want); met[want] == 0 {
			missing = append(missing, want)
		}
	}
	return missing
}

// countLog applies one random log to the naive model and counts into met.
func countLog(t *rapid.T, met map[string]int) {
	naive, w, l := newModel(), &workload{now: 1_000_000}, &log{term: 1}
	apply := func(t *rapid.T, b *fsmpb.Batch) {
		l.next(t)
		results := naive.apply(fsm.LSN{Term: l.term, Index: l.index}, decode(t, entry(t, b)))
		w.learn(b, results)
		for i, mut := range b.Mutations {
			countAnswer(met, mut, results[i])
		}
		for _, e := range naive.events {
			met[fmt.Sprintf("event %d %v→%v", e.kind, e.from, e.to)]++
		}
		countJobs(met, naive.jobs)
		for _, did := range naive.did {
			met[did]++
		}
		for _, c := range naive.crons {
			countRuns(met, c)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"entry":    func(t *rapid.T) { apply(t, w.batch(t)) },
		"entry2":   func(t *rapid.T) { apply(t, w.batch(t)) },
		"takeover": func(t *rapid.T) { apply(t, w.takeover(t)) },
	})
}

func countAnswer(met map[string]int, mut *fsmpb.Mutation, r fsm.Result) {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", mut.Op), "*fsmpb.Mutation_")
	if mut.Request != nil && r.LSN != (fsm.LSN{}) {
		kind = "again " + kind
	}
	met[kind+" "+r.Code.String()]++
	if mut.GetComplete().GetLog() != "" {
		met["log "+r.Code.String()]++
	}
	if mut.GetHeartbeat() == nil && mut.GetChange() == nil && mut.GetGroup() == nil && mut.GetEnqueue() == nil {
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

func countRuns(met map[string]int, c *fsm.Cron) {
	for _, r := range c.Runs {
		if r.Status != 0 {
			met["run "+fsm.Status(r.Status).String()]++
		}
		if r.Duplicate {
			met["run of another job"]++
		}
		if r.Reason != "" {
			met["run skipped"]++
		}
	}
	if c.MaxFires > 1 && c.Fired >= c.MaxFires {
		met["fired often enough"]++
	}
}

func countJobs(met map[string]int, jobs []*fsm.Job) {
	for _, j := range jobs {
		if j.Details().Log != "" && string(j.Execution().Result) == forcedResult {
			met["forced, with a log"]++
		}
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

// mustMeet lists the events that a few thousand logs must contain.
const mustMeet = `Enqueue ok
Enqueue item replaced
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
log ok
log duplicate
forced, with a log
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
EditJob ok
EditJob duplicate
EditJob wrong_status
EditJob revised
EditJob unique_taken
EditJob payload_too_large
EditJob too_many_bytes
EditJob too_many_token_bytes
StoreStep ok
StoreStep duplicate
StoreStep stale_token
Suspend ok
Suspend duplicate
Suspend no_such_batch
SendSignal ok
SendSignal duplicate
SendSignal not_found
SendSignal wrong_status
MakeLink ok
MakeLink duplicate
MakeLink not_found
MakeLink wrong_status
RetryFlow ok
RetryFlow not_found
RetryFlow no_such_batch
RetryFlow wrong_status
RetryFlow unique_taken
ReserveArtefact ok
ReserveArtefact id_taken
ReserveArtefact too_many_bytes
ReserveArtefact too_many_token_bytes
AttachArtefact ok
AttachArtefact duplicate
AttachArtefact no_such_artefact
AttachArtefact stale_token
Enqueue no_such_artefact
a new job has an artefact
an artefact takes the place of another one
an artefact is released with its job
a reservation ends
an artefact is dropped
a job waits for a time
a job waits for the end of a batch
a job does not wait for a batch that has ended
a job does not wait for a signal that it has
a suspension cancels
a signal wakes a job
a signal comes first
a signal comes by a link
a flow of several jobs runs again
a job has children
a parent is refused
a job waits for a batch
a job waits for a batch that failed
only: it runs
only: it is cancelled
a callback of a failure
a job is kept for one that runs after it
SetLimit ok
SetLimit not_found
ThrottleLimit ok
ThrottleLimit not_found
ThrottleLimit stale_token
ThrottleLimit wrong_worker
ThrottleLimit not_running
a claim parks a lane
a claim moves a lane to another key
a lane returns to a full group
a line gives a job
an aged job goes first
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
Announce ok
CreateToken ok
CreateToken duplicate
CreateToken id_taken
CreateToken token_expired
CreateToken not_found
RevokeToken ok
RevokeToken not_found
TouchTokens ok
PutHook ok
PutHook not_found
DeleteHook ok
TestHook ok
ReportHook ok
SetAlert ok
SetAlert duplicate
Complete wrong_worker
ForceComplete ok
ForceComplete not_found
event 0 blocked→completed
event 0 scheduled→completed
event 0 unclaimed→completed
event 0 dead→completed
event 0 cancelled→completed
event 0 completed→completed
event 0 blocked→expired
event 0 scheduled→expired
event 0 unclaimed→expired
event 0 expired→unclaimed
history failed
history lease_expired
history timed_out
long history
run completed
run dead
run cancelled
run of another job
run skipped
fired often enough
cancelled, attempt failed
cancelled, attempt released
cancelled, attempt timed_out`
