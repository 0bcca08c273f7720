package fsm_test

import (
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// pauseOf pauses a type; p may be nil.
func pauseOf(jobType string, p *fsmpb.Pause) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: jobType, Paused: new(true), Pause: p}}}
}

// TestPauseEnds: the machine resumes a type at the end of its pause, also after a restart.
func TestPauseEnds(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1000, enqueue("a"), pauseOf("t", &fsmpb.Pause{Reason: "down", By: "ann", UntilMs: 5000}))
	apply(t, m, 2000, pauseOf("t", &fsmpb.Pause{Reason: "still down", By: "ben", UntilMs: 6000}))
	want := fsm.Pause{Reason: "still down", By: "ben", Since: 1000, Until: 6000}
	if got := m.View().Queue("t").Pause; got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if at, ok := m.NextDeadline(nil); !ok || at != 6000 {
		t.Fatalf("the next deadline is %d", at)
	}
	for _, m := range []*fsm.Machine{copyOf(t, m), m} {
		if got := apply(t, m, 5999, claim("w", 1)); len(got[0].Jobs) != 0 {
			t.Fatal("a job of a paused type was claimed")
		}
		if got := apply(t, m, 6000, claim("w", 1)); len(got[0].Jobs) != 1 {
			t.Fatal("the pause has not ended")
		}
		q := m.View().Queue("t")
		if q.Paused || q.Pause != (fsm.Pause{}) {
			t.Errorf("%+v", q)
		}
		if e := m.Events()[0]; e.Kind != fsm.QueueSet || e.Name != "t" || !strings.HasPrefix(e.Text, "resumed") {
			t.Errorf("event %+v", e)
		}
	}
}

// TestPauseRefused: entries with a pause that no type can have do not get into the log.
func TestPauseRefused(t *testing.T) {
	long := strings.Repeat("x", fsm.PauseTextMax+1)
	set := func(op *fsmpb.SetQueue) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}}
	}
	for name, m := range map[string]*fsmpb.Mutation{
		"reason":     pauseOf("t", &fsmpb.Pause{Reason: long}),
		"by":         pauseOf("t", &fsmpb.Pause{By: long}),
		"not UTF-8":  pauseOf("t", &fsmpb.Pause{Reason: "\xff"}),
		"until":      pauseOf("t", &fsmpb.Pause{UntilMs: -1}),
		"since":      pauseOf("t", &fsmpb.Pause{SinceMs: 1}),
		"not paused": set(&fsmpb.SetQueue{Name: "t", Pause: &fsmpb.Pause{}}),
		"resumed":    set(&fsmpb.SetQueue{Name: "t", Paused: new(false), Pause: &fsmpb.Pause{}}),
		"removed":    set(&fsmpb.SetQueue{Name: "t", Paused: new(true), Remove: true, Pause: &fsmpb.Pause{}}),
	} {
		if _, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: 1, Mutations: []*fsmpb.Mutation{m}}); err == nil {
			t.Errorf("%s: the entry was encoded", name)
		}
	}
	b := fsm.NewBuilder(fsm.Meta{})
	if err := b.AddQueue(&fsm.QueueSettings{Name: "t", Pause: fsm.Pause{Since: 1}}); err == nil {
		t.Error("a state has the pause of a type that is not paused")
	}
}
