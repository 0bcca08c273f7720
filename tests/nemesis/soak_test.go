package nemesis

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"osqueue/tests/model"
)

// TestOneFault plays the faults that OSQUEUE_FAULTS names, separated by commas, on a
// cluster that allows all of them.
func TestOneFault(t *testing.T) {
	faults := os.Getenv("OSQUEUE_FAULTS")
	if faults == "" {
		t.Skip("plays the faults that OSQUEUE_FAULTS names")
	}
	r := Round{Name: "faults", Seed: freshSeed(t), Script: strings.Split(faults, ",")}
	for _, name := range r.Script {
		f := named(name)
		r.Nodes = max(r.Nodes, f.Nodes)
		if f.Single {
			r.Nodes = 1
		}
		r.File = r.File || f.Needs&NeedFile != 0
		r.Mixed = r.Mixed || f.Needs&NeedMixed != 0
		r.Clock = r.Clock || f.Needs&NeedClock != 0
		r.SmallDisk = r.SmallDisk || f.Needs&NeedDisk != 0
		if f.Needs&NeedWorkers != 0 {
			r.Workers = 2
		}
	}
	for _, f := range Run(t, r).Faults {
		if !f.Hit && !excused(f.Proof) {
			t.Errorf("%s has missed: %s", f.Name, f.Proof)
		}
	}
}

// TestSoak plays rounds on fresh clusters, one after the other, for as long as
// OSQUEUE_SOAK says, and prints what they have come to. Each has another cluster and
// draws of all faults, two at a time now and then, for OSQUEUE_ROUND (60s).
// OSQUEUE_SEED repeats a round.
func TestSoak(t *testing.T) {
	s := os.Getenv("OSQUEUE_SOAK")
	if s == "" {
		t.Skip("takes as long as OSQUEUE_SOAK says")
	}
	lasts, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("OSQUEUE_SOAK: %v", err)
	}
	each := time.Minute
	if s := os.Getenv("OSQUEUE_ROUND"); s != "" {
		if each, err = time.ParseDuration(s); err != nil {
			t.Fatalf("OSQUEUE_ROUND: %v", err)
		}
	}
	sum, begin := newTotals(), time.Now()
	for seed := freshSeed(t); time.Since(begin) < lasts; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Cleanup(func() { sum.rounds++; sum.note(t.Failed()) })
			sum.add(Run(t, drawRound(seed, each)))
		})
		if os.Getenv("OSQUEUE_SEED") != "" {
			break
		}
	}
	t.Logf("%s\n%s", time.Since(begin).Round(time.Second), sum)
}

// drawRound draws a cluster and how it is to be treated.
func drawRound(seed uint64, lasts time.Duration) Round {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := Round{
		Name: "soak", Seed: seed, Lasts: lasts,
		Nodes:     []int{3, 3, 3, 4, 5}[rng.IntN(5)],
		Overlap:   true,
		Loses:     rng.IntN(3) == 0,
		Clock:     rng.IntN(3) > 0,
		SmallDisk: rng.IntN(2) == 0,
		Workers:   2 * rng.IntN(2),
	}
	switch rng.IntN(12) {
	case 0:
		r.Nodes, r.Pool = 1, singlePool
	case 1:
		r.File = true
	case 2, 3:
		r.Mixed, r.Clock, r.Pool = true, false, mixedPool
	}
	return r
}

// totals counts the results of rounds.
type totals struct {
	rounds, failed, void, ops, jobs, refused int
	hit, missed                              map[string]int
	why                                      map[string]string // a fault missed, the last time
	checked                                  map[string]int
	violated                                 map[string]int
}

func newTotals() *totals {
	return &totals{
		hit: map[string]int{}, missed: map[string]int{}, why: map[string]string{},
		checked: map[string]int{}, violated: map[string]int{},
	}
}

func (s *totals) note(failed bool) {
	if failed {
		s.failed++
	}
}

func (s *totals) add(o Outcome) {
	s.ops += o.Ops
	s.jobs += o.Jobs
	s.refused += o.Refused
	if o.Void != "" {
		s.void++
	}
	for _, f := range o.Faults {
		if f.Hit {
			s.hit[f.Name]++
		} else {
			s.missed[f.Name]++
			s.why[f.Name] = f.Proof
		}
	}
	for _, v := range o.Verdicts {
		s.checked[v.Checker] += v.Checked
		if v.Result == model.Violated {
			s.violated[v.Checker] += len(v.Violations) + v.More
		}
	}
}

func (s *totals) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%d rounds, %d failed, %d void; %d operations, %d jobs, %d stale PUTs refused\n",
		s.rounds, s.failed, s.void, s.ops, s.jobs, s.refused)
	fmt.Fprintln(w, "\nfault\thit\tmissed\t")
	all := maps.Clone(s.hit)
	maps.Copy(all, s.missed)
	for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(a, b) }) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", name, s.hit[name], s.missed[name], s.why[name])
	}
	fmt.Fprintln(w, "\nchecker\tchecked\tviolations")
	for _, name := range slices.Sorted(maps.Keys(s.checked)) {
		fmt.Fprintf(w, "%s\t%d\t%d\n", name, s.checked[name], s.violated[name])
	}
	_ = w.Flush()
	return b.String()
}
