package fsm_test

import (
	"bytes"
	"errors"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestEntriesHaveTheLowestVersion: an older node reads every entry that uses nothing
// that it does not know, whoever wrote it and whatever the level of the state.
func TestEntriesHaveTheLowestVersion(t *testing.T) {
	for _, m := range everyKind(t).Mutations {
		want := uint32(fsm.BaseLevel)
		if m.GetRaiseLevel() != nil {
			want = fsm.Level7
		}
		group := &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{announce(1, ""), m}}}}
		batches := []*fsmpb.Batch{{Mutations: []*fsmpb.Mutation{announce(1, ""), m}}}
		if m.GetGroup() == nil && m.Request == nil {
			batches = append(batches, &fsmpb.Batch{Mutations: []*fsmpb.Mutation{group}})
		}
		for _, b := range batches {
			if got := decode(t, entry(t, b)).Version; got != want {
				t.Errorf("%T: version %d, want %d", m.Op, got, want)
			}
		}
	}
	if got := decode(t, entry(t, &fsmpb.Batch{})).Version; got != fsm.BaseLevel {
		t.Errorf("an empty entry: version %d", got)
	}
}

// TestLevelIsPartOfTheState: it starts at the base, only grows, and comes back from a
// snapshot. A snapshot of the base level names no level, so that older nodes read it.
func TestLevelIsPartOfTheState(t *testing.T) {
	m := fsm.New()
	if m.Level() != fsm.BaseLevel {
		t.Fatalf("a new machine has level %d", m.Level())
	}
	if got := copyOf(t, m).Level(); got != fsm.BaseLevel {
		t.Fatalf("restored: level %d", got)
	}
	if r := apply(t, m, 1, raiseLevel(fsm.Level7), raiseLevel(fsm.Level7)); r[0].Code != fsm.OK || r[1].Code != fsm.Duplicate {
		t.Fatalf("raising twice: %v and %v", r[0].Code, r[1].Code)
	}
	if m.Level() != fsm.Level7 || copyOf(t, m).Level() != fsm.Level7 {
		t.Fatalf("level %d, restored %d", m.Level(), copyOf(t, m).Level())
	}
}

// TestSnapshotOfANewerLevel is refused with the reason, not as one that is damaged,
// even if it has fields that are not known here.
func TestSnapshotOfANewerLevel(t *testing.T) {
	meta := &fsmpb.Meta{Level: fsm.MaxLevel + 1}
	meta.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x01})
	data, err := meta.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	stream := append([]byte("osqueue snapshot 1\n"), byte(len(data)))
	if _, err := fsm.Decode(bytes.NewReader(append(stream, data...))); !errors.Is(err, fsm.ErrLevel) || !errors.Is(err, fsm.ErrSnapshot) {
		t.Fatalf("decode: %v", err)
	}
	if err := (fsm.Meta{Level: fsm.MaxLevel + 1}).Check(); !errors.Is(err, fsm.ErrLevel) || !errors.Is(err, fsm.ErrState) {
		t.Fatalf("check: %v", err)
	}
}
