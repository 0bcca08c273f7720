package document_test

import (
	"slices"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

// A job with a position that the caller has passed has ended, also long after the machine has
// forgotten its id. A job without a position, or with one after the caller's youngest, is new.
func TestNewJobs(t *testing.T) {
	m := fsm.New()
	m.Apply(1, 1, &fsmpb.Batch{NowMs: 1000, Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{
		Jobs: []*fsmpb.NewJob{{Id: "ended"}, {Id: "stays"}},
	}}}}})
	old, err := document.Decode(document.Encode(document.Inline(m.View()), header, "a:1", m.Meta().Now))
	if err != nil {
		t.Fatal(err)
	}
	ids := func(lastSeq uint64) (ids []string) {
		for _, j := range old.NewJobs(lastSeq) {
			ids = append(ids, j.ID)
		}
		return ids
	}
	for lastSeq, want := range map[uint64][]string{9: nil, 2: nil, 1: {"stays"}, 0: {"ended", "stays"}} {
		if got := ids(lastSeq); !slices.Equal(got, want) {
			t.Errorf("new after %d: %q, want %q", lastSeq, got, want)
		}
	}
	if old.ForgetPlaces(); !slices.Equal(ids(9), []string{"ended", "stays"}) {
		t.Errorf("new without positions: %q", ids(9))
	}
}
