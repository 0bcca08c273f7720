package model_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/tests/history"
	"osqueue/tests/model"
)

func verdictOf(h *history.History, name string) model.Verdict {
	for _, c := range model.Checkers() {
		if c.Name == name {
			return c.Check(h, model.Options{})
		}
	}
	return model.Verdict{}
}

// TestCheckersAcceptTheTruth: what really happened breaks no promise, with and
// without the log.
func TestCheckersAcceptTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		faults := rapid.Bool().Draw(t, "faults")
		h := simulate(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(20, 250).Draw(t, "operations"), faults)
		if rapid.IntRange(0, 3).Draw(t, "log") == 0 {
			h.Applied, h.Documents, h.States = nil, nil, nil
		}
		for _, v := range model.Check(h, model.Options{}) {
			if v.Result == model.OK || v.Result == model.Void {
				continue
			}
			t.Errorf("%s: %s %s", v.Checker, v.Result, v.Note)
			for _, x := range v.Violations[:min(3, len(v.Violations))] {
				t.Errorf("  %s %v", x.Text, x.Ops)
			}
		}
	})
}

// TestALostClaimHasTheJob: claim 89 gets nothing while a claim whose answer was lost has the
// job, which the history without its log does not show.
func TestALostClaimHasTheJob(t *testing.T) {
	h := simulate(0xd5e0, 102, true)
	for _, log := range [][]history.Applied{h.Applied, nil} {
		h.Applied = log
		if v := verdictOf(h, "Reassigned"); len(v.Violations) > 0 {
			t.Errorf("log of %d lines: %v", len(log), v.Violations)
		}
	}
}

// TestCheckersLookAtSomething: a long enough run leaves none without work.
func TestCheckersLookAtSomething(t *testing.T) {
	for _, v := range model.Check(simulate(7, 1000, true), model.Options{}) {
		if v.Result != model.OK || v.Checked == 0 {
			t.Errorf("%s: %s, %d checked, %s", v.Checker, v.Result, v.Checked, v.Note)
		}
	}
}

// TestUnseenClients: what clients outside of the history did is in the log only, and
// breaks no promise.
func TestUnseenClients(t *testing.T) {
	h := simulate(3, 1000, true)
	h.Ops = slices.DeleteFunc(h.Ops, func(op history.Op) bool { return op.Client == "w1" })
	for _, v := range model.Check(h, model.Options{}) {
		if v.Result != model.OK {
			t.Errorf("%s: %s %s %v", v.Checker, v.Result, v.Note, v.Violations)
		}
	}
	h.Applied = nil
	if v := verdictOf(h, "Linearizable"); v.Result == model.OK {
		t.Error("without the log nobody can know of them")
	}
}

// TestLogsAreJoined: a log that begins late continues where the whole one ends.
func TestLogsAreJoined(t *testing.T) {
	h := simulate(12, 600, true)
	all := h.Applied
	half := len(all) / 2
	snapshot := all[half]
	snapshot.Node, snapshot.Kind, snapshot.Jobs = "n2", history.Snapshot, nil
	late := []history.Applied{snapshot}
	for _, l := range all[half+1:] {
		l.Node = "n2"
		late = append(late, l)
	}
	h.Applied = slices.Concat(all[:len(all)*3/4], late)
	for _, v := range model.Check(h, model.Options{}) {
		if v.Result != model.OK {
			t.Errorf("%s: %s %s %v", v.Checker, v.Result, v.Note, v.Violations)
		}
	}
}

// TestALateVerdictIsItsOwn: no time is not a pass.
func TestALateVerdictIsItsOwn(t *testing.T) {
	for _, v := range model.Check(simulate(3, 300, true), model.Options{Patience: 1}) {
		if v.Checker == "Linearizable" && v.Result != model.TimedOut {
			t.Errorf("%s %s", v.Result, v.Note)
		}
	}
}

// TestVoid: a history without anything to judge by passes nothing.
func TestVoid(t *testing.T) {
	for _, v := range model.Check(&history.History{}, model.Options{}) {
		if v.Result != model.Void || v.Note == "" {
			t.Errorf("%s: %s %q", v.Checker, v.Result, v.Note)
		}
	}
	h := simulate(3, 100, false)
	h.Faults = []history.Fault{{Name: "all-lost", Hit: true, Loses: true}}
	for _, name := range []string{"Kept", "Linearizable"} {
		if v := verdictOf(h, name); v.Result != model.Void {
			t.Errorf("%s after a loss: %s", name, v.Result)
		}
	}
}
