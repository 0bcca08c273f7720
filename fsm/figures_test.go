package fsm_test

import (
	"strconv"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// counting returns a machine, and a function that applies an entry at a
// time in ms.
func counting(t *testing.T) (*fsm.Machine, func(now int64, muts ...*fsmpb.Mutation)) {
	t.Helper()
	m, index := fsm.New(), uint64(0)
	apply := func(now int64, muts ...*fsmpb.Mutation) {
		index++
		m.Apply(index, 1, decodeFor(t, &fsmpb.Batch{NowMs: now, Mutations: muts}))
	}
	return m, apply
}

func decodeFor(t *testing.T, b *fsmpb.Batch) *fsmpb.Batch {
	t.Helper()
	data, err := fsm.EncodeEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = fsm.DecodeEntry(data); err != nil {
		t.Fatal(err)
	}
	return b
}

func addOf(jobType, id string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: jobType}}}}}
}

// The first FiguresMax types have figures of their own, all others share one record, and the
// record of a type that is gone for a day makes room.
func TestFiguresAreBounded(t *testing.T) {
	m, apply := counting(t)
	const hour = 3_600_000
	for i := range 10_000 {
		apply(hour, addOf("type"+strconv.Itoa(i), "j"+strconv.Itoa(i)))
	}
	apply(hour, addOf("", "none"), addOf(strings.Repeat("x", fsm.FigureNameMax+1), "long"), addOf("\xff", "invalid"))
	figures := collected(m.View().Figures)
	if n := len(figures); n != fsm.FiguresMax+1 {
		t.Fatalf("%d figures, want %d", n, fsm.FiguresMax+1)
	}
	if other := figures[fsm.FiguresMax]; !other.Shared || other.Enqueued != 10_003-fsm.FiguresMax {
		t.Errorf("the shared figures are %+v", other.Counters)
	}
	apply(26*hour, deleteJob("j7"))
	apply(27*hour, addOf("new", "new"))
	v := m.View()
	if v.FiguresOf("type7") != nil || v.FiguresOf("new") == nil || v.FiguresOf("type8") == nil {
		t.Errorf("the type without jobs has figures: %v, the new one: %v", v.FiguresOf("type7") != nil, v.FiguresOf("new") != nil)
	}
	if err := m.CheckIndexes(); err != nil {
		t.Error(err)
	}
}

func deleteJob(id string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{id}}}}
}

// The figures of a day take a bounded number of bytes in a snapshot, however many types there
// are.
func TestFiguresTakeFewBytes(t *testing.T) {
	for _, types := range []int{1, 100, 10_000} {
		m, apply := counting(t)
		for minute := range int64(10) {
			for i := range types {
				id := strconv.Itoa(i)
				apply((100+minute)*60_000, addOf("type"+id, "j"+id), deleteJob("j"+id))
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
	m, apply := counting(t)
	apply(1000, addOf("a", "1"))
	before := m.View()
	apply(61_000, addOf("a", "2"), addOf("b", "3"))
	if f := before.FiguresOf("a"); f.Enqueued != 1 || before.FiguresOf("b") != nil {
		t.Errorf("the old view has %+v", f.Counters)
	}
	if f := m.View().FiguresOf("a"); f.Enqueued != 2 {
		t.Errorf("the new view has %+v", f.Counters)
	}
}
