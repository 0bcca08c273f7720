package fsm_test

import (
	"slices"
	"testing"

	"osqueue/fsm"
)

// TestQuietWorker: a quiet worker gets no new jobs, keeps the one that it runs, and stays quiet
// when it registers again.
func TestQuietWorker(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1000, enqueue("a"), enqueue("b"), registerWorker("w"), claimAs("w", "r", 1))
	if got := apply(t, m, 1001, setQuiet("nobody", true), setQuiet("w", true), setQuiet("w", true)); got[0].Code != fsm.NotFound || got[1].Code != fsm.OK || got[2].Code != fsm.OK {
		t.Fatalf("%+v", got)
	}
	if got := m.Turned(); !slices.Equal(got, []string{"w"}) {
		t.Errorf("turned: %q", got)
	}
	if e := m.Events(); len(e) != 1 || e[0].Kind != fsm.WorkerSet || e[0].Name != "w" {
		t.Errorf("events: %+v", e)
	}
	for _, m := range []*fsm.Machine{copyOf(t, m), m} {
		got := apply(t, m, 1002, registerWorker("w"), claimAs("w", "r", 1), claim("w", 1), claim("v", 1))
		if len(got[1].Jobs) != 1 || len(got[2].Jobs) != 0 || len(got[3].Jobs) != 1 {
			t.Errorf("a repeated claim got %d jobs, the next %d, and that of another worker %d", len(got[1].Jobs), len(got[2].Jobs), len(got[3].Jobs))
		}
		w := m.View().Worker("w")
		if w.QuietSince != 1001 || w.QuietedBy != "ann" || !m.Quiet("w") || m.Quiet("v") {
			t.Errorf("%+v", w)
		}
		got = apply(t, m, 1003, complete("w", "a", got[1].Jobs[0].Execution().Token), enqueue("c"), setQuiet("w", false), claim("w", 1))
		if got[0].Code != fsm.OK || len(got[3].Jobs) != 1 || m.Quiet("w") {
			t.Errorf("%+v", got)
		}
	}
}

// TestQuietWorkerComesBack: a quiet worker that is declared dead is quiet when it comes back
// within a day, by a registration or by a claim. After a day, or if it is deleted, it is not.
func TestQuietWorkerComesBack(t *testing.T) {
	gone := fsm.New()
	apply(t, gone, 1000, registerWorker("w"), setQuiet("w", true))
	apply(t, gone, 100_000)
	w := gone.View().Worker("w")
	if w == nil || w.GoneAt != 100_000 || !gone.Quiet("w") {
		t.Fatalf("%+v", w)
	}
	if at, ok := gone.NextDeadline(nil); !ok || at != 100_000+fsm.QuietMs {
		t.Errorf("the next deadline is %d", at)
	}
	for _, back := range []func(m *fsm.Machine) []fsm.Result{
		func(m *fsm.Machine) []fsm.Result {
			return apply(t, m, 200_000, registerWorker("w"), enqueue("a"), claim("w", 1))
		},
		func(m *fsm.Machine) []fsm.Result {
			return apply(t, m, 200_000, claim("w", 1), enqueue("a"), claim("w", 1))
		},
	} {
		m := copyOf(t, gone)
		if got := back(m); len(got[2].Jobs) != 0 || m.View().Worker("w").Gone() {
			t.Errorf("%+v, worker %+v", got[2], m.View().Worker("w"))
		}
		if at, ok := m.NextDeadline(nil); !ok || at > 300_001 {
			t.Errorf("the worker that came back has its deadline at %d", at)
		}
	}
	for name, forget := range map[string]func(m *fsm.Machine){
		"deleted":  func(m *fsm.Machine) { apply(t, m, 200_000, workerDead("w")) },
		"unquiet":  func(m *fsm.Machine) { apply(t, m, 200_000, setQuiet("w", false)) },
		"a day on": func(m *fsm.Machine) { apply(t, m, 100_000+fsm.QuietMs) },
	} {
		m := copyOf(t, gone)
		forget(m)
		if m.View().Worker("w") != nil || !slices.Contains(m.Turned(), "w") {
			t.Errorf("%s: %+v, turned %q", name, m.View().Worker("w"), m.Turned())
		}
		if got := apply(t, m, 100_001+fsm.QuietMs, registerWorker("w"), enqueue("a"), claim("w", 1)); len(got[2].Jobs) != 1 {
			t.Errorf("%s: the worker gets no job", name)
		}
	}
}
