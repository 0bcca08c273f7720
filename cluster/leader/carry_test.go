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

// A job that is carried over keeps its artefacts, also one that the document has reserved.
func TestArtefactsAreCarriedOver(t *testing.T) {
	const now = 1_700_000_000_000
	reserve := func(id string) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: &fsmpb.ReserveArtefact{
			Id: id, Size: 5, Sum: make([]byte, 32), Sealed: true, UntilMs: now + 60_000, Quota: &fsmpb.Quota{Account: "acc"},
		}}}
	}
	here, there := fsm.New(), fsm.New()
	there.Apply(1, 1, &fsmpb.Batch{NowMs: now, Mutations: []*fsmpb.Mutation{reserve("a")}})
	list := []*fsmpb.NamedArtefact{{Name: "x", Id: "a"}, {Name: "y", Id: "b"}}
	here.Apply(1, 1, &fsmpb.Batch{NowMs: now, Mutations: []*fsmpb.Mutation{
		reserve("a"), reserve("b"), {Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "j", Artefacts: list}}}}},
	}})
	c := &carried{m: there, doc: there.View(), own: here.View(), ids: map[string]struct{}{"j": {}}, batch: []*fsm.Job{here.Job("j")}}
	c.enqueue()
	got := there.View().ArtefactsOf("j")
	if len(got) != 2 || got[0].Id != "a" || got[1].Id != "b" || got[1].Size != 5 || !got[1].Sealed || got[1].Account != "acc" || len(c.kept) != 0 {
		t.Errorf("the adopted state has %v, and %d jobs are only in the copy", got, len(c.kept))
	}
}
