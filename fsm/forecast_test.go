package fsm_test

import (
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

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
				f := m.NewForecast(b.NowMs, func(_ string, of int) { n += of })
				if f.Add(mut); n > most {
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
