package fsm_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// rankedNaively returns the types of a machine as the lists have them, in an order.
func rankedNaively(m *fsm.Machine, o fsm.TypeOrder) []fsm.RankedType {
	by := make(map[string]fsm.RankedType)
	v := m.View()
	v.Queues(func(q *fsm.QueueSettings) bool {
		by[q.Name] = fsm.RankedType{Name: q.Name}
		return true
	})
	all := allStatuses
	v.List(fsm.Index{}, all, 0, func(j *fsm.Job) bool {
		r := by[j.Type]
		r.Name = j.Type
		if j.Status == fsm.Unclaimed {
			if r.Unclaimed++; r.OldestAt == 0 {
				r.OldestAt = j.CreatedAt // the jobs come by Seq
			}
		}
		by[j.Type] = r
		return true
	})
	rank := func(r fsm.RankedType) int64 {
		switch {
		case o == fsm.ByUnclaimed:
			return -int64(r.Unclaimed)
		case o == fsm.ByOldest && r.OldestAt == 0:
			return math.MaxInt64
		case o == fsm.ByOldest:
			return r.OldestAt
		}
		return 0
	}
	types := slices.Collect(maps.Values(by))
	slices.SortFunc(types, func(a, b fsm.RankedType) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	return types
}

// The lists of types are what a look at all jobs finds, in every order, page by page, also of a
// machine that was restored.
func TestListsOfTypes(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	m := fsm.New()
	pick := func() string { return fmt.Sprint("t", rng.IntN(12)) }
	none, paused := int64(0), true
	for step := range 600 {
		now := int64(1000 + step)
		switch id := fmt.Sprint("j", step); rng.IntN(8) {
		case 0, 1, 2:
			apply(t, m, now, enqueueType(pick(), id))
		case 3, 4:
			for _, j := range apply(t, m, now, claim("w", 3, pick()))[0].Jobs {
				apply(t, m, now, complete("w", j.ID, j.Execution().Token))
			}
		case 5:
			apply(t, m, now, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: pick(), Paused: &paused, RetainCount: &none}}})
		case 6:
			apply(t, m, now, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: pick(), Remove: true}}})
		case 7:
			apply(t, m, now, &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{
				Kind: uint32(fsm.DeleteJobs), Filter: &fsmpb.Filter{Type: new(pick())},
			}}})
		}
		if step%7 != 0 {
			continue
		}
		for _, o := range []fsm.TypeOrder{fsm.ByName, fsm.ByOldest, fsm.ByUnclaimed} {
			var got []fsm.RankedType
			v := m.View()
			for more := true; more; {
				var after *fsm.RankedType
				if len(got) > 0 {
					after = &got[len(got)-1]
				}
				n := 0
				more = false
				for r := range v.Types(o, after) {
					if n == 3 {
						more = true
						break
					}
					n++
					got = append(got, r)
				}
			}
			if want := rankedNaively(m, o); !slices.Equal(got, want) {
				t.Fatalf("step %d, order %d:\n%v, want\n%v", step, o, got, want)
			}
		}
		if step%70 == 0 {
			m = copyOf(t, m)
		}
	}
}
