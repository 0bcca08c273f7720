package notify

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// noLimit is more bytes than any claims have.
const noLimit = 1 << 30

// numbers returns the positions of sleepers in all.
func numbers(all, some []*Sleeper) (found []int) {
	for _, s := range some {
		found = append(found, slices.Index(all, s))
	}
	return found
}

func TestTakeChoosesTheLongestSleepers(t *testing.T) {
	b := newBench(t, 100)
	all := slices.Concat(b.sleepers(1, "u"), b.sleepers(1, "t"), b.sleepers(1), b.sleepers(2, "t"))
	if got := numbers(all, b.ready.Take("t", 3, noLimit)); !slices.Equal(got, []int{1, 2, 3}) {
		t.Fatalf("3 jobs took %v, want the 3 longest sleepers for t", got)
	}
	b.enqueue("t", 1) // as if another claim had got the first job
	if got := awake(all); !slices.Equal(got, []int{4}) {
		t.Fatalf("%v are awake, want 4", got)
	}
	if got := b.ready.Take("t", 1, noLimit); got != nil {
		t.Fatalf("took %v, want none", numbers(all, got))
	}
}

func TestTakeCountsWhatClaimsAskFor(t *testing.T) {
	b := newBench(t, 100)
	var all []*Sleeper
	for range 4 {
		s := b.ready.Sleep(claimOf("w", 3, "t"))
		t.Cleanup(func() { b.ready.Forget(s) })
		all = append(all, s)
	}
	if got := numbers(all, b.ready.Take("t", 4, noLimit)); !slices.Equal(got, []int{0, 1}) {
		t.Fatalf("4 jobs took %v, want two claims of 3 jobs", got)
	}
	if got := b.ready.Take("t", 4, all[2].claim.SizeVT()); len(got) != 1 {
		t.Fatalf("took %v, want the one that fits", numbers(all, got))
	}
	if got := b.ready.Take("t", 4, all[3].claim.SizeVT()-1); got != nil {
		t.Fatalf("took %v, want none: it does not fit", numbers(all, got))
	}
}

func TestAnEmptyAnswerKeepsThePlace(t *testing.T) {
	b := newBench(t, 100)
	all := b.sleepers(4, "t", "u")
	taken := b.ready.Take("t", 2, noLimit)
	for _, s := range []*Sleeper{taken[1], taken[0]} {
		s.Deliver(Answer{})
		if a := <-s.Answered(); !a.Empty() {
			t.Fatalf("%+v is not empty", a)
		}
		b.ready.Resume(s)
	}
	if got := numbers(all, b.ready.Take("u", 4, noLimit)); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Fatalf("took %v, want the order of Sleep", got)
	}
}

func TestATakenSleeperIsNotWithdrawn(t *testing.T) {
	b := newBench(t, 100)
	all := b.sleepers(2, "t")
	b.ready.Take("t", 1, noLimit)
	if b.ready.Withdraw(all[0]) {
		t.Fatal("a claim that is in an entry was withdrawn")
	}
	if !b.ready.Withdraw(all[1]) || b.ready.Take("t", 1, noLimit) != nil {
		t.Fatal("a withdrawn claim can be taken")
	}
	all[0].Deliver(Answer{})
	b.ready.Resume(all[0])
	if !b.ready.Withdraw(all[0]) {
		t.Fatal("a claim that sleeps again cannot be withdrawn")
	}
}

func TestAForgottenSleeperLeavesNothing(t *testing.T) {
	b := newBench(t, 100)
	s := b.ready.Sleep(claimOf("w", 1, "t"))
	b.ready.Take("t", 1, noLimit)
	b.ready.Forget(s)
	s.Deliver(Answer{}) // does not block
	if n := b.ready.Sleeping(); n != 0 || len(b.ready.byType) != 0 || b.ready.any.Len() != 0 {
		t.Fatalf("%d sleep, %d types have lists", n, len(b.ready.byType))
	}
}

// caller is a claim of one type as cluster.AwaitClaim runs it, one step at a time.
type caller struct {
	sleeper *Sleeper
	jobType string
	trying  bool // it proposes the claim itself
	working bool // it has a job
}

// crew is a set of callers, the leader that takes their claims, and the entries in flight.
type crew struct {
	*bench
	callers []*caller
	pending []func() // deliver the answers of applied entries
	next    int
}

// awake reports whether a caller will look for a job of a type.
func (c *crew) awake(jobType string) bool {
	return slices.ContainsFunc(c.callers, func(x *caller) bool {
		if x.jobType != jobType || x.working {
			return false
		}
		return x.trying || x.sleeper != nil && (x.sleeper.taken || len(x.sleeper.wake) > 0)
	})
}

// entry applies mutations in one entry, with the claims that wait for their jobs, as
// cluster/leader does. The answers are delivered later. refused entries are not applied.
func (c *crew) entry(refused bool, muts ...*fsmpb.Mutation) {
	var all []*fsmpb.Mutation
	taken := make(map[int]*Sleeper)
	jobs := c.machine.NewForecast(c.now, func(jobType string, n int) {
		for _, s := range c.ready.Take(jobType, n, noLimit) {
			taken[len(all)] = s
			all = append(all, s.Claim())
		}
	})
	for _, mut := range muts {
		all = append(all, mut)
		jobs.Add(mut)
	}
	var results []fsm.Result
	if refused {
		results = make([]fsm.Result, len(all))
	} else {
		results = c.apply(all...)
	}
	for i, s := range taken {
		c.pending = append(c.pending, func() { s.Deliver(Answer{Result: results[i]}) })
	}
}

// step moves one caller on, if it can move.
func (c *crew) step(x *caller, leaves bool) {
	switch {
	case x.working:
		x.working = false
	case x.trying:
		x.trying = false
		c.answered(x, c.apply(claimOf("w", 1, x.jobType))[0])
	case x.sleeper == nil:
		x.sleeper = c.ready.Sleep(claimOf("w", 1, x.jobType))
		c.look(x)
	case leaves:
		c.ready.Forget(x.sleeper)
		x.sleeper = nil
	default:
		c.wait(x)
	}
}

// wait handles what has arrived for a sleeping caller.
func (c *crew) wait(x *caller) {
	select {
	case <-x.sleeper.Woken():
		x.trying = true
	case a := <-x.sleeper.Answered():
		if !a.Empty() {
			c.answered(x, a.Result)
			return
		}
		c.ready.Resume(x.sleeper)
		c.look(x)
	default:
	}
}

// look proposes the claim if a job is available after Sleep or Resume.
func (c *crew) look(x *caller) {
	if c.machine.Ready([]string{x.jobType}) && c.ready.Withdraw(x.sleeper) {
		x.trying = true
	}
}

func (c *crew) answered(x *caller, res fsm.Result) {
	x.working = len(res.Jobs) > 0
	if x.sleeper != nil {
		c.ready.Forget(x.sleeper)
		x.sleeper = nil
	}
}

// While a job is available and a claim sleeps, another claim for its type is under way:
// taken, woken, or about to be proposed.
func TestNoClaimSleepsWhileAJobIsAvailable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &crew{bench: newBench(t, 100)}
		types := []string{"t", "u"}
		for i := range rapid.IntRange(1, 8).Draw(rt, "callers") {
			c.callers = append(c.callers, &caller{jobType: types[i%2]})
		}
		limit := int64(2)
		c.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "u", MaxRunningPerGroup: &limit}}})
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": func(rt *rapid.T) {
				var muts []*fsmpb.Mutation
				for range rapid.IntRange(1, 3).Draw(rt, "mutations") {
					op := &fsmpb.Enqueue{}
					for range rapid.IntRange(1, 3).Draw(rt, "jobs") {
						c.next++
						op.Jobs = append(op.Jobs, &fsmpb.NewJob{
							Id: fmt.Sprint(c.next), Type: rapid.SampledFrom(types).Draw(rt, "type"), Options: &fsmpb.Options{Group: "g"},
						})
					}
					muts = append(muts, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
				}
				c.entry(rapid.IntRange(0, 9).Draw(rt, "refused") == 0, muts...)
			},
			"outsider": func(rt *rapid.T) { c.apply(claimOf("other", 1, rapid.SampledFrom(types).Draw(rt, "type"))) },
			"deliver": func(rt *rapid.T) {
				if n := len(c.pending); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(rt, "answer")
					c.pending[i]()
					c.pending = slices.Delete(c.pending, i, i+1)
				}
			},
			"step": func(rt *rapid.T) {
				x := rapid.SampledFrom(c.callers).Draw(rt, "caller")
				c.step(x, rapid.IntRange(0, 9).Draw(rt, "leaves") == 0)
			},
			"": func(rt *rapid.T) {
				for _, x := range c.callers {
					listed := x.sleeper != nil && len(x.sleeper.spots) > 0
					if listed && c.machine.Ready([]string{x.jobType}) && !c.awake(x.jobType) {
						rt.Fatalf("a job of type %q is available, and only sleepers wait for it", x.jobType)
					}
				}
			},
		})
	})
}
