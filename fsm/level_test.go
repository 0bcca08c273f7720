package fsm_test

import (
	"bytes"
	"errors"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestEntriesHaveTheLowestVersion: a node reads every entry that has no feature that it does
// not know, from any writer and at any level of the state.
func TestEntriesHaveTheLowestVersion(t *testing.T) {
	for _, m := range everyKind(t).Mutations {
		if got := decode(t, entry(t, &fsmpb.Batch{Mutations: []*fsmpb.Mutation{announce(1, ""), m}})).Version; got != fsm.BaseLevel {
			t.Errorf("%T: version %d", m.Op, got)
		}
	}
	if got := decode(t, entry(t, &fsmpb.Batch{})).Version; got != fsm.BaseLevel {
		t.Errorf("an empty entry: version %d", got)
	}
	group := &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{announce(1, ""), raiseLevel(7)}}}}
	if got := fsm.LevelOf(group); got != 7 {
		t.Errorf("a group with a feature of level 7 has level %d", got)
	}
}

// TestLevelIsPartOfTheState: it starts at the base, and comes back from a snapshot.
func TestLevelIsPartOfTheState(t *testing.T) {
	m := fsm.New()
	if m.Level() != fsm.BaseLevel || copyOf(t, m).Level() != fsm.BaseLevel {
		t.Fatalf("a new machine has level %d, restored %d", m.Level(), copyOf(t, m).Level())
	}
}

// TestSnapshotOfANewerLevel is refused with the reason, not as one that is damaged,
// even if it has unknown fields.
func TestSnapshotOfANewerLevel(t *testing.T) {
	meta := fsmpb.Meta{Level: fsm.MaxLevel + 1}
	meta.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x01})
	data, err := meta.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	stream := append([]byte("osqueue snapshot 1\n"), byte(len(data)))
	if _, err := fsm.Decode(bytes.NewReader(append(stream, data...))); !errors.Is(err, fsm.ErrLevel) || !errors.Is(err, fsm.ErrSnapshot) {
		t.Fatalf("decode: %v", err)
	}
	if err := fsm.CheckMeta(&fsm.Meta{Level: fsm.MaxLevel + 1}); !errors.Is(err, fsm.ErrLevel) || !errors.Is(err, fsm.ErrState) {
		t.Fatalf("check: %v", err)
	}
}
