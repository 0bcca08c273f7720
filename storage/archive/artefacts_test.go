package archive

import (
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/mem"
)

// withArtefacts returns a state with artefacts of a job ("a" and "b"), a reserved one ("c"), and a released one ("d"), each with
// bytes that are its name.
func withArtefacts(t *testing.T) *fsm.Machine {
	t.Helper()
	m := fsm.New()
	muts := []*fsmpb.Mutation{{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{Node: "n", Epoch: 1, Lineage: "l", Cluster: "c"}}}}
	for _, id := range []string{"a", "b", "c", "d"} {
		sum := sha256.Sum256([]byte(id))
		muts = append(muts, &fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: &fsmpb.ReserveArtefact{
			Id: id, Size: 1, Sum: sum[:], UntilMs: 9000, Sealed: id == "b",
		}}})
	}
	job := func(id string, list ...*fsmpb.NamedArtefact) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Artefacts: list}}}}}
	}
	muts = append(
		muts, job("j", &fsmpb.NamedArtefact{Name: "x", Id: "a"}, &fsmpb.NamedArtefact{Name: "y", Id: "b"}), job("gone", &fsmpb.NamedArtefact{Name: "x", Id: "d"}),
		&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{"gone"}}}},
	)
	for i, r := range m.Apply(1, 1, &fsmpb.Batch{NowMs: 1000, Mutations: muts}) {
		if r.Code != fsm.OK {
			t.Fatal(i, r.Code)
		}
	}
	return m
}

func putObjects(t *testing.T, b storage.Bucket, names ...string) {
	t.Helper()
	for _, name := range names {
		if w := b.PutIfAbsent(t.Context(), "artefact/"+name, []byte(name)); w.Outcome != storage.Committed {
			t.Fatal(w)
		}
	}
}

func objectNames(t *testing.T, b storage.Bucket) (names []string) {
	t.Helper()
	err := b.List(t.Context(), "artefact/", func(i storage.Info) bool { names = append(names, i.Key[len("artefact/"):]); return true })
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestVerifyFindsMissingAndUnknownArtefacts(t *testing.T) {
	m, bucket := withArtefacts(t), mem.New()
	if _, err := Begin(m, Origin{Lineage: "l2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteBeginning(t.Context(), bucket, "doc", "", Beginning{State: m.View(), NowMs: time.Now().UnixMilli()}); err != nil {
		t.Fatal(err)
	}
	verify := func() *Report {
		t.Helper()
		r, err := Verify(t.Context(), bucket, "doc")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	putObjects(t, bucket, "a", "b")
	if r := verify(); !r.OK() || r.Artefacts != 2 || len(r.Unknown) != 0 { // reserved and released ones may lack theirs
		t.Errorf("whole: %+v", r)
	}
	putObjects(t, bucket, "c", "d", "e")
	if r := verify(); !r.OK() || !slices.Equal(r.Unknown, []string{"artefact/e"}) {
		t.Errorf("with an unknown one: %+v", r)
	}
	for _, key := range []string{"artefact/a", "artefact/b"} {
		if err := bucket.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if w := bucket.PutIfAbsent(t.Context(), "artefact/b", []byte("longer")); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	r := verify()
	if r.OK() || len(r.Problems) != 2 || r.Problems[0].Key != "artefact/a" || r.Problems[1].Key != "artefact/b" {
		t.Errorf("without one, and with another one cut: %v", r.Problems)
	}
	if !r.Sound() { // a repair would lose states and not make them
		t.Error("the document counts as damaged")
	}
}

func TestCopyArtefacts(t *testing.T) {
	v, from, to := withArtefacts(t).View(), mem.New(), mem.New()
	putObjects(t, from, "a", "c", "d", "e")
	for range 2 { // the second time they are there
		copied, missing, err := CopyArtefacts(t.Context(), from, to, v)
		if copied != 2 || !slices.Equal(missing, []string{"artefact/b"}) || err != nil {
			t.Fatal(copied, missing, err)
		}
	}
	if got := objectNames(t, to); !slices.Equal(got, []string{"a", "c"}) {
		t.Error(got)
	}
	if w := from.PutIfAbsent(t.Context(), "artefact/b", []byte("B")); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	if _, missing, err := CopyArtefacts(t.Context(), from, to, v); err != nil || len(missing) != 1 || len(objectNames(t, to)) != 2 {
		t.Errorf("other bytes were copied: %v, %v", missing, err)
	}
}
