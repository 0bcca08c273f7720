package fsm_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm/fsmpb"
)

// TestReplicasWithTinyBudgetsStayEqual gives many entries more to do than they may.
// TestTinyBudgetsMeetEverything shows what these logs contain.
func TestReplicasWithTinyBudgetsStayEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkReplicas(t, newTinyCluster(t)) })
}

func newTinyCluster(t *rapid.T) *cluster {
	c := newCluster()
	c.workload.crowded = true
	c.tiny = &[3]int{1 + roll(t, 3, "settle"), 1 + roll(t, 3, "fire"), 1 + roll(t, 3, "retire")}
	c.shrink(c.steady)
	for _, m := range c.restored {
		c.shrink(m)
	}
	return c
}

// TestTinyBudgetsMeetEverything counts the work that tiny budgets put off, and the
// features that the states use at that time: replicas that are restored then are equal
// only if the features depend on nothing but the state.
func TestTinyBudgetsMeetEverything(t *testing.T) {
	t.Parallel()
	const rounds = 20
	met := map[string]bool{}
	missing := func() []string {
		return slices.DeleteFunc(strings.Split(mustPutOff, "\n"), func(want string) bool { return met[want] })
	}
	for round := 0; round < rounds && len(missing()) > 0; round++ {
		rapid.Check(t, func(t *rapid.T) {
			if len(missing()) > 0 {
				notePutOff(t, met)
			}
		})
	}
	for _, want := range missing() {
		t.Errorf("never met in %d rounds: %s", rounds, want)
	}
}

// notePutOff applies one random log.
func notePutOff(t *rapid.T, met map[string]bool) {
	c := newTinyCluster(t)
	c.restored = nil
	apply := func(t *rapid.T, b *fsmpb.Batch) {
		c.apply(t, b)
		late := c.steady.PutOff()
		for _, what := range late {
			met["put off: "+what] = true
		}
		if len(late) == 0 {
			return
		}
		for _, feature := range c.steady.Features() {
			met[feature] = true
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"entry":    func(t *rapid.T) { apply(t, c.workload.batch(t)) },
		"entry2":   func(t *rapid.T) { apply(t, c.workload.batch(t)) },
		"takeover": func(t *rapid.T) { apply(t, c.workload.takeover(t)) },
	})
}

const mustPutOff = `put off: job due
put off: lease
put off: worker
put off: timeout
put off: limit
put off: retention
put off: waiters
backoff
batches
callbacks
cancelled jobs
claims
dependencies
buckets of limits
holds of limits
limits of running jobs
limits that will open
parked lanes
paused schedules
pauses
priorities
rates
removed jobs
requests
retention of a type
rules of limits
schedules
timeouts
turns of groups
unique keys
unique keys for a period
workers`
