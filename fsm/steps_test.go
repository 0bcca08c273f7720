package fsm_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// inFlow is an enqueue of jobs of one batch: each name stands before the names of those that it runs after.
func inFlow(batch string, jobs ...string) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{NewBatch: &fsmpb.NewBatch{Id: batch}}
	for _, line := range jobs {
		names := strings.Fields(line)
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: names[0], Type: "t", Options: &fsmpb.Options{Batch: batch, After: names[1:]}})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// mustHave checks the statuses of jobs.
func mustHave(t *testing.T, m *fsm.Machine, want fsm.Status, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if got := m.Job(id).Status; got != want {
			t.Errorf("%s is %v, want %v", id, got, want)
		}
	}
}

func TestStepsAreBounded(t *testing.T) {
	m := fsm.New()
	mustBe(t, m, apply(t, m, 1, enqueue("a", "b"), claim("w", 2)), fsm.OK, fsm.OK)
	for i := range fsm.StepsMax {
		apply(t, m, 1, storeStep("w", "a", 0, fmt.Sprint(i), "1"))
	}
	mustBe(t, m, apply(t, m, 1, storeStep("w", "a", 0, "one more", "1"), storeStep("w", "a", 0, "7", "2")), fsm.TooManySteps, fsm.Duplicate)
	if d := m.Job("a").Details(); len(d.Steps) != fsm.StepsMax || string(d.Step("7").Value) != "1" {
		t.Errorf("%d steps, and %q", len(d.Steps), d.Step("7").Value)
	}

	// 15 steps of 64 KiB with their names, and a signal that takes what is left of 1 MiB.
	large := strings.Repeat("x", fsm.StepValueMax)
	for i := range 15 {
		mustBe(t, m, apply(t, m, 1, storeStep("w", "b", 0, fmt.Sprint("s", 100+i), large)), fsm.OK)
	}
	left := 1<<20 - 15*(len(large)+len("s100")) - len("n") - len("i")
	mustBe(t, m, apply(t, m, 1, storeStep("w", "b", 0, "n", large), sendSignal("b", "n", "i", large[:left]), sendSignal("b", "n", "", ""), storeStep("w", "b", 0, "s", "")),
		fsm.TooManySteps, fsm.OK, fsm.TooManySteps, fsm.TooManySteps)
	if got := m.Job("b").Size() - int64(len(m.Job("b").Payload())); got != 1<<20 {
		t.Errorf("%d bytes", got)
	}
}

// Steps and signals count in the bytes of the answer to a claim, also after a restart.
func TestClaimsCountStepsAndSignals(t *testing.T) {
	m, large := fsm.New(), strings.Repeat("x", fsm.StepValueMax)
	const each = 15
	most := (fsm.ClaimBytesMax + each*fsm.StepValueMax - 1) / (each * fsm.StepValueMax)
	for i := range most + 1 {
		id := fmt.Sprint("k", i)
		apply(t, m, 1, enqueue(id))
		for range each {
			if r := apply(t, m, 1, sendSignal(id, "n", "", large)); r[0].Code != fsm.OK {
				t.Fatal(r[0].Code)
			}
		}
	}
	for _, m := range []*fsm.Machine{copyOf(t, m), m} {
		if got := len(apply(t, m, 1, claim("w", 100))[0].Jobs); got != most {
			t.Errorf("a claim got %d jobs, want %d", got, most)
		}
	}
}

func TestSignalsAndLinksAreBounded(t *testing.T) {
	m, hash := fsm.New(), func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, 32) }
	apply(t, m, 1, enqueue("a"))
	for range 100 {
		mustBe(t, m, apply(t, m, 1, sendSignal("a", "go", "", "1")), fsm.OK)
	}
	mustBe(t, m, apply(t, m, 1, sendSignal("a", "go", "", "1")), fsm.TooManySteps)
	for i := range fsm.LinksMax {
		mustBe(t, m, apply(t, m, 1, makeLink("a", "stop", hash(i), 100)), fsm.OK)
	}
	by := sendSignal("a", "stop", "", "1")
	by.GetSendSignal().Link = hash(3)
	mustBe(t, m, apply(t, m, 1, makeLink("a", "stop", hash(99), 100), by), fsm.TooManySteps, fsm.TooManySteps)
	if n := len(m.Job("a").Details().Links); n != fsm.LinksMax {
		t.Errorf("a signal that was refused has left %d links", n)
	}
	mustBe(t, m, apply(t, m, 100, by, makeLink("a", "stop", hash(99), 200)), fsm.NotFound, fsm.OK)
	if n := len(m.Job("a").Details().Links); n != 1 {
		t.Errorf("%d links, want the one that has not ended", n)
	}
}

// The end of its children's batch lets a suspended parent run again, whatever the end is.
func TestParentWaitsForItsChildren(t *testing.T) {
	for name, end := range map[string]func(id string) *fsmpb.Mutation{
		"complete": func(id string) *fsmpb.Mutation { return complete("w", id, 0) },
		"die":      func(id string) *fsmpb.Mutation { return fail("w", id, 0, "boom", true) },
		"delete":   func(id string) *fsmpb.Mutation { return changeOf(fsm.DeleteJobs, id) },
	} {
		m, children := fsm.New(), inFlow("children", "c1", "c2")
		children.GetEnqueue().Parent = &fsmpb.Parent{Worker: "w", Lease: &fsmpb.Lease{JobId: "p"}}
		parent := enqueue("p")
		parent.GetEnqueue().Jobs[0].Optional().AfterFailure = uint32(fsm.AfterCancel) // its own choice does not count
		mustBe(t, m, apply(t, m, 1, children), fsm.NotFound)
		mustBe(t, m, apply(t, m, 1, parent, claim("w", 1), storeStep("w", "p", 0, "made", "2"), children, suspendUntilEnd("w", "p", 0, "nobody's"), suspendUntilEnd("w", "p", 0, "children")),
			fsm.OK, fsm.OK, fsm.OK, fsm.OK, fsm.NoSuchBatch, fsm.OK)
		mustHave(t, m, fsm.Blocked, "p")
		muts, again := []*fsmpb.Mutation{claim("w", 2), end("c1"), end("c2")}, fsm.OK
		if name == "delete" {
			muts, again = muts[1:], fsm.NoSuchBatch
		}
		apply(t, m, 2, muts...)
		mustBe(t, m, apply(t, m, 3, claim("w", 1), children), fsm.OK, again) // the repeated enqueue finds the children
		if j := m.Job("p"); j.Status != fsm.InProgress || j.Attempts != 1 || len(j.Details().History) != 0 || string(j.Details().Step("made").Value) != "2" {
			t.Errorf("%s: %s", name, showJob(j))
		}
	}
}

// A batch that is removed before its end, because no job came to it, lets its waiters go, too.
func TestWaitersOfARemovedBatch(t *testing.T) {
	m, settings := fsm.New(), fsm.DefaultSettings()
	settings.RetainCompletedMs = 10
	after := enqueue("block", "run")
	for i, n := range after.GetEnqueue().Jobs {
		n.Optional().AfterBatches, n.Optional().AfterFailure = []string{"b"}, []uint32{uint32(fsm.AfterBlock), uint32(fsm.AfterRun)}[i]
	}
	mustBe(t, m, apply(t, m, 1, registerBroker("n", 1, settings), inFlow("b"), after), fsm.OK, fsm.OK, fsm.OK)
	apply(t, m, 100)
	apply(t, m, 101)
	mustHave(t, m, fsm.Cancelled, "block")
	mustHave(t, m, fsm.Unclaimed, "run")
	if got := m.Job("block").Execution().LastError; got != "batch b, which it waited for, was deleted" {
		t.Error(got)
	}
}

// A signal lets the job's lane be tried again, as an edit does: it may have been parked under another limit.
func TestSignalToAParkedJob(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1, setLimit("k", &fsmpb.LimitRule{Running: 1}), setLimit("l", &fsmpb.LimitRule{Running: 1}),
		limitedJob("t", "", "first", "k"), limitedJob("t", "", "second", "l"), claim("w", 2), limitedJob("t", "", "parked", "k", "l"))
	if on := m.View().WaitsForLimit(m.Job("parked")); on != "k" {
		t.Fatalf("the job waits for %q", on)
	}
	mustBe(t, m, apply(t, m, 2, complete("w", "first", 0), sendSignal("parked", "go", "", "1")), fsm.OK, fsm.OK)
	if on := m.View().WaitsForLimit(m.Job("parked")); on != "l" || len(m.Job("parked").Details().Signals) != 1 {
		t.Errorf("the job waits for %q", on)
	}
	mustBe(t, m, apply(t, m, 3, complete("w", "second", 0), makeLink("parked", "go", make([]byte, 32), 9)), fsm.OK, fsm.OK)
	if on := m.View().WaitsForLimit(m.Job("parked")); on != "" {
		t.Errorf("the job waits for %q", on)
	}
	mustBe(t, m, apply(t, m, 4, claim("w", 1), storeStep("w", "parked", 0, "s", "1"), complete("w", "parked", 0)), fsm.OK, fsm.OK, fsm.OK)
}

// Each job of a diamond runs once more, after those before it.
func TestRetryOfADiamond(t *testing.T) {
	m := fsm.New()
	run := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			mustBe(t, m, apply(t, m, 2, claim("w", 1), storeStep("w", id, 0, "s", "1"), complete("w", id, 0)), fsm.OK, fsm.OK, fsm.OK)
		}
	}
	mustBe(t, m, apply(t, m, 1, inFlow("b", "top", "left top", "right top", "end left right", "beside"), inFlow("other", "out left")), fsm.OK, fsm.OK)
	run("top", "left", "right", "end", "beside", "out")
	apply(t, m, 3, claim("w", 1))
	before := m.Job("beside")
	r := apply(t, m, 3, retryFlow("left", false))
	mustBe(t, m, r, fsm.OK)
	if r[0].Count != 2 || r[0].Jobs[0].ID != "left" {
		t.Errorf("%d jobs, of %s", r[0].Count, r[0].Jobs[0].ID)
	}
	mustHave(t, m, fsm.Unclaimed, "left")
	mustHave(t, m, fsm.Blocked, "end")
	mustHave(t, m, fsm.Completed, "top", "right", "out")
	if m.Job("beside") != before || m.View().Batch("b").EndedAtMs != 0 {
		t.Error("a job beside the flow has changed, or the batch has ended")
	}
	apply(t, m, 3, claim("w", 1))
	mustBe(t, m, apply(t, m, 3, retryFlow("top", true)), fsm.WrongStatus)
	mustBe(t, m, apply(t, m, 3, complete("w", "left", 0), retryFlow("top", true)), fsm.OK, fsm.OK)
	mustHave(t, m, fsm.Blocked, "left", "right", "end")
	if waits := m.Job("end").Details().Waits; !slices.Equal(waits, []string{"left", "right"}) {
		t.Errorf("the end waits for %q", waits)
	}
	for _, id := range []string{"top", "left", "right", "end"} {
		if d := m.Job(id).Details(); len(d.Steps) > 0 {
			t.Errorf("%s has steps", id)
		}
	}
	run("top", "left", "right", "end")
	if b := m.View().Batch("b"); b.Completed != 5 || b.EndedAtMs == 0 {
		t.Errorf("the batch is %v", b)
	}
	mustBe(t, m, apply(t, m, 4, retryFlow("none", false), enqueue("alone"), retryFlow("alone", false)), fsm.NotFound, fsm.OK, fsm.NoSuchBatch)
}

// A job that waits and is retried with its flow does not expire any more, as any that is retried.
func TestRetryOfAFlowEndsItsStartBefore(t *testing.T) {
	m, jobs := fsm.New(), inFlow("b", "first", "second first")
	for _, n := range jobs.GetEnqueue().Jobs {
		n.Optional().StartBeforeMs = 100
	}
	mustBe(t, m, apply(t, m, 1, jobs, retryFlow("first", false)), fsm.OK, fsm.OK)
	apply(t, m, 200)
	mustHave(t, m, fsm.Unclaimed, "first")
	mustHave(t, m, fsm.Blocked, "second")
}

// A job that runs only after a failure counts the failure of a job that is not retried with its flow.
func TestRetryOfAFlowCountsOtherFailures(t *testing.T) {
	for _, fails := range []bool{true, false} {
		m, jobs := fsm.New(), inFlow("b", "a", "b", "clean a b")
		jobs.GetEnqueue().Jobs[2].Optional().AfterFailure = uint32(fsm.AfterOnly)
		apply(t, m, 1, jobs, claim("w", 2), fail("w", "b", 0, "boom", true))
		if fails {
			apply(t, m, 1, fail("w", "a", 0, "boom", true))
		} else {
			apply(t, m, 1, complete("w", "a", 0))
		}
		mustHave(t, m, fsm.Unclaimed, "clean")
		mustBe(t, m, apply(t, m, 2, retryFlow("b", false), claim("w", 1), complete("w", "b", 0)), fsm.OK, fsm.OK, fsm.OK)
		mustHave(t, m, map[bool]fsm.Status{true: fsm.Unclaimed, false: fsm.Cancelled}[fails], "clean")
	}
}

func TestFlowsAreBounded(t *testing.T) {
	m, op := fsm.New(), &fsmpb.Enqueue{NewBatch: &fsmpb.NewBatch{Id: "b"}}
	for i := range 10_001 {
		n := &fsmpb.NewJob{Id: fmt.Sprint("k", i), Type: "t", Options: &fsmpb.Options{Batch: "b"}}
		if i > 0 {
			n.Optional().After = []string{fmt.Sprint("k", i-1)}
		}
		op.Jobs = append(op.Jobs, n)
	}
	mustBe(t, m, apply(t, m, 1, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}, retryFlow("k0", false), retryFlow("k1", false)),
		fsm.OK, fsm.TooManyWaiters, fsm.OK)
}
