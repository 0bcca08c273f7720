package fsm_test

import (
	"strconv"
	"strings"
	"testing"

	"osqueue/fsm"
)

// The first FiguresMax types have figures of their own, all others share one record, and the
// record of a type that is gone for a day makes room.
func TestFiguresAreBounded(t *testing.T) {
	m := fsm.New()
	const hour = 3_600_000
	for i := range 10_000 {
		apply(t, m, hour, enqueueType("type"+strconv.Itoa(i), "j"+strconv.Itoa(i)))
	}
	apply(t, m, hour, enqueueType("", "none"), enqueueType(strings.Repeat("x", fsm.FigureNameMax+1), "long"), enqueueType("\xff", "invalid"))
	figures := collected(m.View().Figures)
	if n := len(figures); n != fsm.FiguresMax+1 {
		t.Fatalf("%d figures, want %d", n, fsm.FiguresMax+1)
	}
	if other := figures[fsm.FiguresMax]; !other.Shared || other.Enqueued != 10_003-fsm.FiguresMax {
		t.Errorf("the shared figures are %+v", other.Counters)
	}
	apply(t, m, 26*hour, changeOf(fsm.DeleteJobs, "j7"))
	apply(t, m, 27*hour, enqueueType("new", "new"))
	v := m.View()
	if v.FiguresOf("type7") != nil || v.FiguresOf("new") == nil || v.FiguresOf("type8") == nil {
		t.Errorf("the type without jobs has figures: %v, the new one: %v", v.FiguresOf("type7") != nil, v.FiguresOf("new") != nil)
	}
	if err := m.CheckIndexes(); err != nil {
		t.Error(err)
	}
}

// The figures of a day take a bounded number of bytes in a snapshot, however many types there
// are.
func TestFiguresTakeFewBytes(t *testing.T) {
	t.Parallel()
	for _, types := range []int{1, 100, 10_000} {
		m := fsm.New()
		for minute := range int64(10) {
			for i := range types {
				id := strconv.Itoa(i)
				apply(t, m, (100+minute)*60_000, enqueueType("type"+id, "j"+id), changeOf(fsm.DeleteJobs, "j"+id))
			}
		}
		n := len(snapshot(t, m))
		t.Logf("%d types: %d bytes after 10 minutes", types, n)
		if most := 400 + (min(types, fsm.FiguresMax)+1)*(60+10*7); n > most {
			t.Errorf("%d types take %d bytes, more than %d", types, n, most)
		}
	}
}

// A view keeps its figures while the machine counts on.
func TestViewsKeepTheirFigures(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1000, enqueueType("a", "1"))
	before := m.View()
	apply(t, m, 61_000, enqueueType("a", "2"), enqueueType("b", "3"))
	if f := before.FiguresOf("a"); f.Enqueued != 1 || before.FiguresOf("b") != nil {
		t.Errorf("the old view has %+v", f.Counters)
	}
	if f := m.View().FiguresOf("a"); f.Enqueued != 2 {
		t.Errorf("the new view has %+v", f.Counters)
	}
}
