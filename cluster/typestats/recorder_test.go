package typestats_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"osqueue/cluster/typestats"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// world applies entries to a machine and a recorder, and counts on its own from the answers
// and from a comparison of the jobs before and after each entry.
type world struct {
	m        *fsm.Machine
	recorder *typestats.Recorder
	now      int64
	index    uint64
	jobs     map[string]*fsm.Job
	ids      []string
	want     map[string]*typestats.Counters
	runs     map[string]uint64 // ended attempts
}

func newWorld() *world {
	return &world{
		m: fsm.New(), recorder: typestats.New(), now: 1_000_000,
		jobs: map[string]*fsm.Job{}, want: map[string]*typestats.Counters{}, runs: map[string]uint64{},
	}
}

func (w *world) apply(t rapid.TB, muts ...*fsmpb.Mutation) []fsm.Result {
	w.index++
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: w.now, Mutations: muts})
	if err != nil {
		t.Fatal(err)
	}
	b, err := fsm.DecodeEntry(data)
	if err != nil {
		t.Fatal(err)
	}
	res := w.m.Apply(w.index, 1, b)
	w.recorder.Applied(w.m)
	w.recount()
	return res
}

// recount compares each job with its form before the entry. An entry has one mutation, so
// a job changes once by time and once by the mutation at most; the tests of the workload
// let time pass in entries of their own.
func (w *world) recount() {
	for _, id := range w.ids {
		old, j := w.jobs[id], w.m.Job(id)
		if j == nil {
			j = &fsm.Job{}
		}
		if old != j {
			w.compare(old, j)
		}
		w.jobs[id] = j
	}
}

func (w *world) compare(old, j *fsm.Job) {
	if j.ID == "" {
		return
	}
	c := w.want[j.Type]
	if c == nil {
		c = &typestats.Counters{}
		w.want[j.Type] = c
	}
	ended := func(j *fsm.Job) bool {
		return j.Status == fsm.Completed || j.Status == fsm.Dead || j.Status == fsm.Cancelled
	}
	if old == nil || old.ID == "" {
		c.Enqueued++
		return
	}
	if old.Status == j.Status {
		return
	}
	if old.Status == fsm.InProgress {
		w.runs[j.Type]++
		if j.AttemptEnd == fsm.EndFail || j.AttemptEnd == fsm.EndLease || j.AttemptEnd == fsm.EndTimeout {
			c.Failed++
			if !ended(j) {
				c.Retried++
			}
		}
		if j.AttemptEnd == fsm.EndLease {
			c.LeasesLost++
		}
	}
	if ended(old) && !ended(j) {
		c.Retried++
	}
	switch j.Status {
	case fsm.InProgress:
		c.Claimed++
	case fsm.Completed:
		c.Completed++
	case fsm.Dead:
		c.Dead++
	case fsm.Cancelled:
		c.Cancelled++
	}
}

func (w *world) step(t *rapid.T) {
	pick := func() string { return rapid.SampledFrom(w.ids).Draw(t, "job") }
	lease := func() *fsmpb.Lease {
		id := pick()
		if j := w.m.Job(id); j != nil {
			return &fsmpb.Lease{JobId: id, Token: j.Execution().Token}
		}
		return &fsmpb.Lease{JobId: id}
	}
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	if len(w.ids) == 0 {
		kind = 0
	}
	switch kind {
	case 0:
		id := "j" + strconv.Itoa(len(w.ids))
		w.ids = append(w.ids, id)
		attempts := int32(2)
		w.apply(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{
			Id: id, Type: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "type"), MaxAttempts: &attempts, LeaseMs: 1000,
		}}}}})
	case 1, 2:
		w.apply(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Max: 2}}})
	case 3:
		w.apply(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Worker: "w", Lease: lease()}}})
	case 4:
		w.apply(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
			Worker: "w", Lease: lease(), Error: "no", Permanent: rapid.Bool().Draw(t, "permanent"),
		}}})
	case 5:
		w.apply(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{Worker: "w", Lease: lease()}}})
	case 6:
		change := rapid.SampledFrom([]fsm.ChangeKind{fsm.CancelJobs, fsm.RetryJobs, fsm.DeleteJobs}).Draw(t, "change")
		w.apply(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(change), Ids: []string{pick()}}}})
	case 7:
		w.now += rapid.Int64Range(1, 2000).Draw(t, "ms")
		w.apply(t)
	}
}

// The counters agree with the changes of the jobs.
func TestCountersAgreeWithTheJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.step(t)
		}
		w.check(t)
	})
}

func (w *world) check(t *rapid.T) {
	stats := map[string]fsm.TypeStats{}
	w.m.Types(func(name string, s fsm.TypeStats) bool { stats[name] = s; return true })
	got := map[string]typestats.Figures{}
	for _, f := range w.recorder.Figures(w.m.View(), stats, w.now) {
		got[f.Name] = f
	}
	for name, want := range w.want {
		f := got[typestats.Label(name)]
		if f.Counters != *want {
			t.Fatalf("type %q\n got %+v\nwant %+v", name, f.Counters, *want)
		}
		if f.Jobs != stats[name].Counts {
			t.Fatalf("type %q has jobs %v, want %v", name, f.Jobs, stats[name].Counts)
		}
		if n := f.Wait.Count(); n != want.Claimed {
			t.Fatalf("type %q has %d waits and %d claims", name, n, want.Claimed)
		}
		if n := f.Run.Count(); n != w.runs[name] {
			t.Fatalf("type %q has %d runs, want %d", name, n, w.runs[name])
		}
		if n := f.Attempts.Count(); n != want.Completed+want.Dead+want.Cancelled {
			t.Fatalf("type %q has %d ends in the histogram of attempts", name, n)
		}
		minutes, _, ok := w.recorder.Minutes(name, false, 60)
		var enqueued, retried uint32
		for _, m := range minutes {
			enqueued, retried = enqueued+m.Enqueued, retried+m.Retried
		}
		if !ok || uint64(enqueued) != want.Enqueued || uint64(retried) != want.Retried {
			t.Fatalf("type %q: the minutes have %d enqueued and %d retried, want %+v", name, enqueued, retried, *want)
		}
	}
	if n := len(slices.Collect(maps.Keys(got))); n != len(w.want)+1 {
		t.Fatalf("%d names of types, want %d and other", n, len(w.want))
	}
}

// A wait begins when the job is due or has failed, not when it was created.
func TestWaitBeginsAgainAfterAFailure(t *testing.T) {
	job := &fsm.Job{CreatedAt: 1000, RunAt: 5000}
	if got := typestats.AvailableSince(job); got != 5000 {
		t.Errorf("a scheduled job waits since %d", got)
	}
	job.Det = &fsm.Details{History: []fsm.Attempt{{EndedAt: 6000}, {EndedAt: 9000}}}
	if got := typestats.AvailableSince(job); got != 9000 {
		t.Errorf("a failed job waits since %d", got)
	}
}

// Minutes that nothing happened in are zero, also when the ring has gone round.
func TestMinutesGoRound(t *testing.T) {
	w := newWorld()
	add := func() {
		id := fmt.Sprint("r", len(w.ids))
		w.ids = append(w.ids, id)
		w.apply(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "a"}}}}})
	}
	add()
	w.now += (typestats.MinutesKept - 1) * 60_000
	add()
	minutes, from, _ := w.recorder.Minutes("a", false, typestats.MinutesKept)
	if minutes[0].Enqueued != 1 || minutes[typestats.MinutesKept-1].Enqueued != 1 || from != 960_000 {
		t.Errorf("first %+v, last %+v, from %d", minutes[0], minutes[len(minutes)-1], from)
	}
	w.now += 60_000
	w.apply(t)
	minutes, _, _ = w.recorder.Minutes("", true, typestats.MinutesKept)
	var sum uint32
	for _, m := range minutes {
		sum += m.Enqueued
	}
	if sum != 1 {
		t.Errorf("a day later %d jobs are in the minutes, want 1", sum)
	}
}

// BenchmarkApplied counts the events of an entry with 1000 jobs of 20 types.
func BenchmarkApplied(b *testing.B) {
	w := newWorld()
	op := &fsmpb.Enqueue{}
	for i := range 1000 {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: strconv.Itoa(i), Type: "type" + strconv.Itoa(rand.IntN(20))})
	}
	w.apply(b, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	b.ReportAllocs()
	for b.Loop() {
		w.recorder.Applied(w.m)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/job")
}
