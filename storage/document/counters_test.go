package document_test

import (
	"errors"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

// edited returns the document of a queue with one job of a batch, after an edit.
func edited(t *testing.T, old, replacement string) []byte {
	t.Helper()
	m := fsm.New()
	apply := func(index uint64, op *fsmpb.Mutation) {
		if r := m.Apply(index, 1, &fsmpb.Batch{NowMs: 1000, Mutations: []*fsmpb.Mutation{op}}); r[0].Code != fsm.OK {
			t.Fatal(r[0].Code)
		}
	}
	apply(1, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{
		NewBatch: &fsmpb.NewBatch{Id: "b"}, Jobs: []*fsmpb.NewJob{{Id: "a", Batch: "b"}},
	}}})
	data := string(document.Encode(document.Inline(m.View()), header, "a:1", m.Meta().Now))
	if !strings.Contains(data, old) {
		t.Fatalf("no %s in %s", old, data)
	}
	return []byte(strings.Replace(data, old, replacement, 1))
}

// A position at the end of the numbers is not taken from an edit: the next job would have one
// that no reader accepts, and the queue would write documents that cannot be read any more.
func TestAnEditCannotUseUpThePositions(t *testing.T) {
	for _, seq := range []string{"9223372036854775807", "18446744073709551615", "4611686018427387905"} {
		_, err := document.Decode(edited(t, `"seq":1`, `"seq":"`+seq+`"`))
		if !errors.Is(err, document.ErrFormat) || !strings.Contains(err.Error(), seq) {
			t.Errorf("seq %s: %v", seq, err)
		}
	}
	doc, err := document.Decode(edited(t, `"seq":1`, `"seq":"4611686018427387904"`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := doc.Machine()
	if err != nil {
		t.Fatal(err)
	}
	op := &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "next"}}}}}
	m.Apply(3, 1, &fsmpb.Batch{NowMs: 1001, Mutations: []*fsmpb.Mutation{op}})
	again, err := document.Decode(document.Encode(document.Inline(m.View()), header, "a:1", m.Meta().Now))
	if err != nil {
		t.Fatal(err)
	}
	if m, err = again.Machine(); err != nil {
		t.Fatal(err)
	}
	if a, next := m.Job("a"), m.Job("next"); a == nil || next == nil || a.Seq >= next.Seq {
		t.Errorf("%+v, %+v", a, next)
	}
}

// Totals of batches have the same limit.
func TestAnEditCannotUseUpTheTotalOfABatch(t *testing.T) {
	if _, err := document.Decode(edited(t, `"total":1`, `"total":"9223372036854775807"`)); !errors.Is(err, document.ErrFormat) {
		t.Fatal(err)
	}
}
