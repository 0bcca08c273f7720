package notify

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// bench is a machine to which the test applies entries, with everything that waits for
// its changes.
type bench struct {
	t       *testing.T
	machine *fsm.Machine
	ready   *Ready
	ends    *Ended
	events  *History
	told    *JobHistory
	index   uint64
	now     int64
}

func newBench(t *testing.T, events int) *bench {
	t.Helper()
	return &bench{
		t: t, now: 1_700_000_000_000, machine: fsm.New(),
		ready: NewReady(), ends: NewEnded(), events: NewHistory(events), told: NewJobHistory(),
	}
}

// apply applies one log entry.
func (b *bench) apply(ms ...*fsmpb.Mutation) []fsm.Result {
	b.t.Helper()
	b.index++
	results := b.machine.Apply(b.index, 1, &fsmpb.Batch{NowMs: b.now, Mutations: ms})
	b.ready.Applied(b.machine)
	b.ends.Applied(b.machine)
	b.events.Applied(b.machine)
	b.told.Applied(b.machine)
	for i, r := range results {
		if !r.Code.Done() {
			b.t.Fatalf("mutation %d: %s", i, r.Code)
		}
	}
	return results
}

// restore replaces the machine by a copy of another one, as a snapshot does.
func (b *bench) restore(from *fsm.Machine) {
	b.t.Helper()
	var buf bytes.Buffer
	if err := from.View().Encode(&buf); err != nil {
		b.t.Fatal(err)
	}
	m, err := fsm.Decode(&buf)
	if err != nil {
		b.t.Fatal(err)
	}
	b.machine, b.index = m, m.LSN().Index
	b.ends.Restored(m)
	b.events.Restored(m)
	b.told.Restored(m)
}

// read passes the machine as Rescan wants it.
func (b *bench) read(fn func(*fsm.Machine)) { fn(b.machine) }

func (b *bench) enqueue(jobType string, n int) {
	b.t.Helper()
	op := &fsmpb.Enqueue{}
	for i := range n {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: fmt.Sprintf("%s-%d-%d", jobType, b.index, i), Type: jobType})
	}
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
}

func claimOf(worker string, n uint32, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: worker, Max: n, Types: types}}}
}

func completeOf(j *fsm.Job) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: j.Execution().Worker, Lease: &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token},
	}}}
}

// awake returns the numbers of the sleepers that have been woken.
func awake(all []*Sleeper) (numbers []int) {
	for i, s := range all {
		if len(s.wake) > 0 {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

func (b *bench) sleepers(n int, types ...string) (all []*Sleeper) {
	for range n {
		s := b.ready.Sleep(claimOf("w", 1, types...))
		all = append(all, s)
		b.t.Cleanup(func() { b.ready.Forget(s) })
	}
	return all
}

func TestAsManyWakeAsThereAreJobs(t *testing.T) {
	b := newBench(t, 100)
	all := b.sleepers(1000, "t")
	others := b.sleepers(10, "other")
	b.enqueue("t", 10)
	if got := awake(all); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Fatalf("10 jobs woke sleepers %v, want the 10 longest", got)
	}
	if got := awake(others); got != nil {
		t.Fatalf("jobs of another type woke %v", got)
	}
	b.enqueue("t", 3)
	if got := len(awake(all)); got != 13 {
		t.Fatalf("3 jobs more woke %d more", got-10)
	}
}

func TestTheLongestSleeperWakesWhateverTypesItNames(t *testing.T) {
	b := newBench(t, 100)
	all := slices.Concat(b.sleepers(1, "t"), b.sleepers(1), b.sleepers(1, "u", "t"), b.sleepers(1, "t"))
	for i := range all {
		b.enqueue("t", 1)
		want := make([]int, 0, len(all))
		for n := range i + 1 {
			want = append(want, n)
		}
		if got := awake(all); !slices.Equal(got, want) {
			t.Fatalf("after %d jobs %v are awake, want %v", i+1, got, want)
		}
	}
}

// A wake-up that is not received goes to the next sleeper that waits for a job of that
// type, and not to sleepers of the other types of the first one.
func TestAWakeUpIsPassedOn(t *testing.T) {
	b := newBench(t, 100)
	hub := b.ready
	gone := hub.Sleep(claimOf("w", 1, "t", "u"))
	others := slices.Concat(b.sleepers(1, "u"), b.sleepers(2, "t"))
	b.enqueue("t", 1)
	hub.Forget(gone)
	if got := awake(others); !slices.Equal(got, []int{1}) {
		t.Fatalf("%v are awake, want 1", got)
	}
}

func TestAFreedSlotWakesOne(t *testing.T) {
	b := newBench(t, 100)
	limit := int64(1)
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", MaxRunning: &limit}}})
	b.enqueue("t", 5)
	j := b.apply(claimOf("w", 1))[0].Jobs[0]
	all := b.sleepers(5, "t")
	b.enqueue("t", 1)
	if got := awake(all); got != nil {
		t.Fatalf("%v are awake though no more may run", got)
	}
	b.apply(completeOf(j))
	if got := awake(all); !slices.Equal(got, []int{0}) {
		t.Fatalf("a freed slot woke %v, want 0", got)
	}
}

func TestAResumedTypeWakes(t *testing.T) {
	b := newBench(t, 100)
	pause := func(paused bool) {
		b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", Paused: &paused}}})
	}
	pause(true)
	all := b.sleepers(5)
	b.enqueue("t", 3)
	if got := awake(all); got != nil {
		t.Fatalf("%v are awake though the type is paused", got)
	}
	pause(false)
	if got := awake(all); !slices.Equal(got, []int{0, 1, 2}) {
		t.Fatalf("%v are awake, want the 3 longest", got)
	}
}

func TestRescanFindsWhatWasMissed(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 2)
	b.enqueue("u", rescanMax+5)
	all := slices.Concat(b.sleepers(3, "t"), b.sleepers(rescanMax+5, "u"))
	b.ready.Rescan(b.read)
	got := awake(all)
	if len(got) != 2+rescanMax || got[2] != 3 {
		t.Fatalf("%d are awake: %v", len(got), got)
	}
	b.ready.Rescan(b.read)
	if n := len(awake(all)); n != 3+rescanMax+5 {
		t.Fatalf("%d are awake after the second time", n)
	}
}

// A sleeper of a quiet worker is in no list, so that no job is handed to it, until its worker
// gets jobs again. A worker that becomes quiet while it waits is woken, to be parked.
func TestQuietSleepersPark(t *testing.T) {
	b := newBench(t, 10)
	claim := func(worker string) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: worker, Types: []string{"t", "u"}}}}
	}
	quiet := func(yes bool) {
		b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: &fsmpb.SetQuiet{Name: "w", Quiet: yes}}})
	}
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{Name: "w"}}})
	s, other := b.ready.Sleep(claim("w")), b.ready.Sleep(claim("v"))
	quiet(true)
	select {
	case <-s.Woken():
	default:
		t.Fatal("the sleeper was not woken")
	}
	b.ready.Forget(s)
	s = b.ready.Sleep(claim("w"))
	b.ready.Park(s)
	if got := b.ready.Take("t", 9, 1<<20); len(got) != 1 || got[0] != other {
		t.Errorf("%d sleepers were taken, want that of the other worker only", len(got))
	}
	quiet(false)
	select {
	case <-s.Woken():
	default:
		t.Error("the parked sleeper was not woken")
	}
	b.ready.Forget(s)
	if len(b.ready.parked) != 0 {
		t.Error("a sleeper is parked after all are gone")
	}
}
