package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// The bounds that random logs never get to, with the numbers of the design.

// enqueueMany enqueues n jobs of type t in chunks.
func enqueueMany(t *testing.T, m *fsm.Machine, n int, prefix string, with func(*fsmpb.NewJob)) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		op := &fsmpb.Enqueue{}
		for i := from; i < min(from+1000, n); i++ {
			job := &fsmpb.NewJob{Id: fmt.Sprintf("%s%05d", prefix, i), Type: "t"}
			with(job)
			op.Jobs = append(op.Jobs, job)
		}
		if r := apply(t, m, m.Meta().Now, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}); r[0].Code != fsm.OK {
			t.Fatalf("%s%05d: %v", prefix, from, r[0].Code)
		}
	}
}

// waitingFor enqueues n jobs that wait for one, each with its own ids.
func waitingFor(t *testing.T, m *fsm.Machine, on string, n int) {
	t.Helper()
	enqueueMany(t, m, n, on+"-", func(job *fsmpb.NewJob) { job.After = []string{on} })
}

func TestOneJobHasABoundedNumberOfWaiters(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1000, enqueue("root"))
	waitingFor(t, m, "root", waitersMax)
	late := enqueue("fine", "late")
	late.GetEnqueue().Jobs[1].After = []string{"root"}
	r := apply(t, m, 1000, late)
	if r[0].Code != fsm.TooManyWaiters || r[0].Codes[1] != fsm.TooManyWaiters || r[0].Codes[0] != fsm.OK || m.Job("fine") != nil {
		t.Fatalf("one more: %v %v", r[0].Code, r[0].Codes)
	}
	apply(t, m, 1000, changeOf(fsm.CancelJobs, "root-00000")) // it waits no longer
	if r := apply(t, m, 1000, late); r[0].Code != fsm.OK {
		t.Fatalf("in the place of another: %v", r[0].Code)
	}
}

// TestWaitersAreSettledOverSeveralEntries ends jobs with more waiters than one
// entry settles. Until the rest is settled the completed job stays.
func TestWaitersAreSettledOverSeveralEntries(t *testing.T) {
	m := fsm.New()
	keepNone := fsm.DefaultSettings()
	keepNone.RetainCompletedCount = 0
	apply(t, m, 1000, registerBroker("n1", 1, keepNone), enqueueType("root", "a", "b"))
	const each = 6000
	for _, root := range []string{"a", "b"} {
		waitingFor(t, m, root, each)
	}
	jobs := apply(t, m, 1001, claim("w", 2, "root"))[0].Jobs
	r := apply(t, m, 1002, complete("w", "a", jobs[0].Execution().Token), complete("w", "b", jobs[1].Execution().Token), changeOf(fsm.DeleteJobs, "b"))
	if r[2].Codes[0] != fsm.WrongStatus {
		t.Errorf("deleting a job that waiters have not heard of: %v", r[2].Codes[0])
	}
	left := 2*each - waitersMax
	if c := m.Counts(); c.Of(fsm.Blocked) != left || c.Of(fsm.Unclaimed) != waitersMax {
		t.Fatalf("after the first entry: %v", c)
	}
	if m.Job("a") != nil || m.Job("b") == nil {
		t.Fatal("a is settled and not to be kept, b has waiters still")
	}
	wantsMore(t, m)
	m = copyOf(t, m) // a restored machine continues
	apply(t, m, 1003)
	if c := m.Counts(); c.Of(fsm.Blocked) != 0 || c.Of(fsm.Unclaimed) != 2*each || m.Job("b") != nil {
		t.Fatalf("after the second entry: %v", c)
	}
	if at, ok := m.NextDeadline(nil); ok {
		t.Fatalf("next deadline %d, want none", at)
	}
}

// TestChangeByFilterLooksAtABoundedNumberOfJobs goes over jobs that do not
// match, and over more that do than one change may change.
func TestChangeByFilterLooksAtABoundedNumberOfJobs(t *testing.T) {
	m := fsm.New()
	const n = visitsMax + 500
	apply(t, m, 1000)
	enqueueMany(t, m, n, "j", func(*fsmpb.NewJob) {})
	group := "none"
	by := &fsmpb.Change{Kind: uint32(fsm.CancelJobs), Filter: &fsmpb.Filter{Group: &group}}
	change := &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: by}}
	r := apply(t, m, 1000, change)[0]
	if want := (fsm.Place{Status: fsm.Unclaimed, Seq: visitsMax}); r.Count != 0 || r.Next != want {
		t.Fatalf("nothing matches: %d changed, next %+v, want %+v", r.Count, r.Next, want)
	}
	by.Filter.AfterStatus, by.Filter.AfterSeq = uint32(r.Next.Status), r.Next.Seq
	if r := apply(t, m, 1000, change)[0]; r.Count != 0 || r.Next != (fsm.Place{}) {
		t.Fatalf("behind it: %d changed, next %+v, want the end", r.Count, r.Next)
	}
	by.Filter, by.Limit = &fsmpb.Filter{}, changesMax+1
	if r := apply(t, m, 1000, change)[0]; r.Count != changesMax || r.Next.Seq != changesMax {
		t.Fatalf("all match: %d changed, next %+v", r.Count, r.Next)
	}
}

// wantsMore checks that the machine asks for another entry at once, and that a
// restored one does, too.
func wantsMore(t *testing.T, m *fsm.Machine) {
	t.Helper()
	for _, m := range []*fsm.Machine{m, copyOf(t, m)} {
		if at, ok := m.NextDeadline(nil); !ok || at > m.Meta().Now {
			t.Fatalf("at %d the next deadline is %d (%v), want now", m.Meta().Now, at, ok)
		}
	}
}

const perEntry = 10_000 // things that fall due, and jobs that retention removes

func TestWhatFallsDueIsBoundedInAnEntry(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1000)
	enqueueMany(t, m, perEntry+500, "j", func(job *fsmpb.NewJob) { job.RunAtMs = 2000 })
	apply(t, m, 2000)
	if c := m.Counts(); c.Of(fsm.Unclaimed) != perEntry || c.Of(fsm.Scheduled) != 500 {
		t.Fatalf("after the first entry: %v", c)
	}
	wantsMore(t, m)
	apply(t, m, 2000)
	if c := m.Counts(); c.Of(fsm.Scheduled) != 0 {
		t.Fatalf("after the second entry: %v", c)
	}
}

func TestRetentionIsBoundedInAnEntry(t *testing.T) {
	m := fsm.New()
	keepAll, keepNone := fsm.DefaultSettings(), fsm.DefaultSettings()
	keepAll.RetainCompletedCount, keepNone.RetainCompletedCount = 2*perEntry, 0
	apply(t, m, 1000, registerBroker("n1", 1, keepAll))
	enqueueMany(t, m, perEntry+500, "j", func(*fsmpb.NewJob) {})
	all := &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.CancelJobs), Filter: &fsmpb.Filter{}}}}
	for range 11 {
		apply(t, m, 1000, all)
	}
	if r := apply(t, m, 1001, registerBroker("n1", 2, keepNone)); r[0].Code != fsm.OK {
		t.Fatal(r[0].Code)
	}
	if c := m.Counts(); c.Of(fsm.Cancelled) != 500 {
		t.Fatalf("after the first entry: %v", c)
	}
	wantsMore(t, m)
	apply(t, m, 1001)
	if c := m.Counts(); c.Of(fsm.Cancelled) != 0 {
		t.Fatalf("after the second entry: %v", c)
	}
}

func TestTypesWithSettingsAreBounded(t *testing.T) {
	m := fsm.New()
	const limit = 10_000
	for from := 0; from < limit; from += 500 {
		var muts []*fsmpb.Mutation
		for i := from; i < from+500; i++ {
			muts = append(muts, settings(fmt.Sprint("t", i)))
		}
		for _, r := range apply(t, m, 1000, muts...) {
			if r.Code != fsm.OK {
				t.Fatal(r.Code)
			}
		}
	}
	r := apply(t, m, 1000, settings("one more"), settings("t77"))
	if r[0].Code != fsm.TooManyQueues || r[1].Code != fsm.OK {
		t.Errorf("one more: %v, one of them: %v", r[0].Code, r[1].Code)
	}
	remove := settings("t77")
	remove.GetSetQueue().Remove = true
	if r := apply(t, m, 1000, remove, settings("one more")); r[0].Code != fsm.OK || r[1].Code != fsm.OK {
		t.Errorf("in the place of another: %v, %v", r[0].Code, r[1].Code)
	}
}

func settings(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: name}}}
}

func TestSchedulesAreBounded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("100 000 schedules")
	}
	m := fsm.New()
	const limit = 100_000
	for from := 0; from < limit; from += 5000 {
		var muts []*fsmpb.Mutation
		for i := from; i < from+5000; i++ {
			muts = append(muts, schedule(fmt.Sprint("c", i)))
		}
		for _, r := range apply(t, m, 1000, muts...) {
			if r.Code != fsm.OK {
				t.Fatal(r.Code)
			}
		}
	}
	if r := apply(t, m, 1000, schedule("one more"), schedule("c77")); r[0].Code != fsm.TooManyCrons || r[1].Code != fsm.OK {
		t.Errorf("one more: %v, one of them: %v", r[0].Code, r[1].Code)
	}
}

func schedule(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: name, Spec: "@hourly", Job: &fsmpb.NewJob{Type: "t"}, NextMs: 5000,
	}}}
}

// TestHistoryIsBounded fails a job more often than its history goes back, with
// errors longer than it keeps.
func TestHistoryIsBounded(t *testing.T) {
	m := fsm.New()
	often := enqueue("a")
	attempts := int32(historyMax + 5)
	often.GetEnqueue().Jobs[0].MaxAttempts = &attempts
	apply(t, m, 1000, often)
	reason := strings.Repeat("x", historyErrorMax-1) + "€ and more"
	for range attempts {
		j := apply(t, m, 1000, claim("w", 1))[0].Jobs[0]
		apply(t, m, 1000, fail("w", "a", j.Execution().Token, reason, false))
	}
	j := m.Job("a")
	h := j.Details().History
	if len(h) != historyMax || h[0].Number != 6 || h[historyMax-1].Number != attempts || j.Status != fsm.Dead {
		t.Fatalf("%d attempts from %d to %d, %v", len(h), h[0].Number, h[len(h)-1].Number, j.Status)
	}
	if h[0].Error != reason[:historyErrorMax-1] || j.Execution().LastError != reason {
		t.Errorf("an error of %d bytes is kept with %d, the last with %d", len(reason), len(h[0].Error), len(j.Execution().LastError))
	}
}
