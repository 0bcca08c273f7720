package fsm

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// A quiet worker gets no new jobs: its claims find none. It keeps the jobs that it runs, and
// reports them as before. That is a property of the name: it survives a change of leader, and a
// worker that registers again stays quiet. A quiet worker that is declared dead, because it
// lost its connection or was restarted, stays in the registry as gone for quietMs, so that it
// is still quiet when it comes back. Deleting the worker ends it.

// quietMs is how long the registry keeps a quiet worker that is dead.
const quietMs = 24 * 3_600_000

// QuietByMax is the largest length of Worker.QuietedBy, in bytes.
const QuietByMax = 512

var errQuiet = fmt.Errorf("a worker has an invalid quietSince or goneAt, or a quietedBy that is not UTF-8 or longer than %d bytes", QuietByMax)

// validQuiet reports whether a worker can have these values.
func validQuiet(w *Worker) bool {
	if w.QuietSinceMs < 0 || w.GoneAtMs < 0 || w.QuietSinceMs == 0 && (w.GoneAtMs != 0 || w.QuietedBy != "") {
		return false
	}
	return validQuieter(w.QuietedBy)
}

func validQuieter(by string) bool { return len(by) <= QuietByMax && utf8.ValidString(by) }

// Quiet reports whether a claim of this worker gets no jobs. It takes O(log n) and reads live
// state, as Ready does: several goroutines may call it at a time, so it does not use workers.key.
func (m *Machine) Quiet(worker string) bool {
	w := m.workers.Find(&Worker{Name: worker})
	return w != nil && w.Quiet()
}

// Turned returns the workers that the last entry made quiet, or that get jobs again since it.
func (m *Machine) Turned() []string { return m.workers.turned }

// setQuiet makes a worker quiet, or gives it jobs again.
func (r registry) setQuiet(op *fsmpb.SetQuiet) Result {
	old := r.workers.find(op.Name)
	switch {
	case old == nil:
		return Result{Code: NotFound}
	case old.Quiet() == op.Quiet:
		return Result{}
	case old.Gone():
		r.forget(old)
		return Result{}
	}
	w := fsmpb.Copy(old)
	w.QuietSinceMs, w.QuietedBy = 0, ""
	text := quietEnded
	if op.Quiet {
		w.QuietSinceMs, w.QuietedBy, text = r.meta.NowMs, strings.Clone(op.By), quietBegan
	}
	r.workers.Set(w)
	r.workers.turn(w.Name)
	r.events = append(r.events, Event{Kind: WorkerSet, Name: w.Name, Text: text})
	return Result{}
}

// The texts of WorkerSet.
const (
	quietBegan = "quiet: it gets no new jobs"
	quietEnded = "it gets jobs again"
)

// forget removes a gone worker from the registry.
func (r registry) forget(w *Worker) {
	r.putWorker(w, nil)
	r.workers.turn(w.Name)
	r.events = append(r.events, Event{Kind: WorkerSet, Name: w.Name, Text: quietEnded})
}

// cameBack stores w in place of old, which is gone. Its deadline is an earlier one then.
func (r registry) cameBack(old, w *Worker) {
	w.GoneAtMs = 0
	r.putWorker(old, w)
	r.events = append(r.events, Event{Kind: WorkerRegistered, Name: w.Name})
}
