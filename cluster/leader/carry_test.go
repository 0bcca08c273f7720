package leader

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// stateWithLimits is a state with rules of limits, by name, and a hold of the key "held".
func stateWithLimits(t *testing.T, running map[string]int64) *fsm.Machine {
	t.Helper()
	const now = 1_700_000_000_000
	hold := &fsmpb.ThrottleLimit{Key: "held", UntilMs: now + 60_000}
	ms := []*fsmpb.Mutation{{Op: &fsmpb.Mutation_ThrottleLimit{ThrottleLimit: hold}}}
	for name, n := range running {
		ms = append(ms, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: &fsmpb.SetLimit{Pattern: name, Rule: &fsmpb.LimitRule{Running: n}}}})
	}
	m := fsm.New()
	m.Apply(1, 1, &fsmpb.Batch{NowMs: now, Mutations: ms})
	return m
}

// The copy has the rules of limits that the adopted document lacks or has otherwise, and no use of keys.
func TestRulesOfLimitsThatTheDocumentLacks(t *testing.T) {
	here := stateWithLimits(t, map[string]int64{"same": 1, "other": 2, "customer:*": 3})
	there := stateWithLimits(t, map[string]int64{"same": 1, "other": 9, "new": 4})
	c := &carried{m: there, doc: there.View()}
	c.rest(here.View(), fork{})
	got := map[string]int64{}
	for _, l := range c.records.Limits {
		got[l.Name] = l.Rule.GetRunning()
	}
	if len(got) != 2 || got["other"] != 2 || got["customer:*"] != 3 {
		t.Errorf("the copy has %v", got)
	}
}
