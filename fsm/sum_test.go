package fsm_test

import (
	"errors"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestReplayIsChecked: a machine that replays a log finds out that its state is not the
// one that the writer of the log had.
func TestReplayIsChecked(t *testing.T) {
	at := fsm.LSN{Term: 1, Index: 3}
	written := fsm.New()
	for i, b := range replayed() {
		written.Apply(uint64(i+1), 1, b)
	}
	agreed := written.View().Sum()
	if agreed.LSN != at {
		t.Fatalf("the checksum is of %s", agreed.LSN)
	}
	for name, c := range map[string]struct {
		spoil func(m *fsm.Machine)
		want  error
	}{
		"as it was written": {func(*fsm.Machine) {}, nil},
		"another state":     {func(m *fsm.Machine) { m.Apply(2, 1, one(enqueue("stray"))) }, fsm.ErrDiverged},
	} {
		m := fsm.New()
		var check fsm.SumCheck
		var err error
		for i, b := range append(replayed(), one(enqueue("after")), one(stateChecked(agreed.LSN, agreed.Sum))) {
			m.Apply(uint64(i+1), 1, b)
			if i == 1 {
				c.spoil(m)
			}
			err = errors.Join(err, check.Applied(m, b))
		}
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

// replayed is a log that ends with an entry that asks for the checksum.
func replayed() []*fsmpb.Batch {
	return []*fsmpb.Batch{one(enqueue("a", "b")), one(claim("w", 1)), {NowMs: 2, Mutations: []*fsmpb.Mutation{checkState(), enqueue("c")}}}
}
