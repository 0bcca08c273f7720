package fsm_test

import (
	"bytes"
	"slices"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func enqueueWith(id string, pairs ...string) *fsmpb.Mutation {
	n := &fsmpb.NewJob{Id: id, Type: "t"}
	for i := 0; i < len(pairs); i += 2 {
		n.Artefacts = append(n.Artefacts, &fsmpb.NamedArtefact{Name: pairs[i], Id: pairs[i+1]})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{n}}}}
}

func of(tenant string, m *fsmpb.Mutation) *fsmpb.Mutation {
	m.Tenant = tenant
	return m
}

// mustBe checks the codes of answers, and that the machine is the same after a restart.
func mustBe(t *testing.T, m *fsm.Machine, results []fsm.Result, want ...fsm.Code) {
	t.Helper()
	var codes []fsm.Code
	for _, r := range results {
		codes = append(codes, r.Code)
	}
	if !slices.Equal(codes, want) {
		t.Fatalf("codes %v, want %v", codes, want)
	}
	if err := m.CheckIndexes(); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := m.View().Encode(&buf); err != nil {
		t.Fatal(err)
	}
	restored, err := fsm.Decode(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if restored.View().Hash() != m.View().Hash() {
		t.Fatal("the restored state is another one")
	}
	a, okA := m.NextDeadline(nil)
	b, okB := restored.NextDeadline(nil)
	if a != b || okA != okB {
		t.Fatalf("the next deadline is %d, %v; restored %d, %v", a, okA, b, okB)
	}
}

// artefactsOf lists the artefacts of a job: its names and ids.
func artefactsOf(m *fsm.Machine, job string) (out []string) {
	for _, a := range m.View().ArtefactsOf(job) {
		out = append(out, a.Name, a.Id)
	}
	return out
}

func TestArtefactsOfNewJobs(t *testing.T) {
	m := fsm.New()
	mustBe(t, m, apply(t, m, 1000,
		reserveArtefact("a", 5, 2000, nil), reserveArtefact("a", 5, 2000, nil), reserveArtefact("b", 5, 2000, nil), reserveArtefact("c", 5, 2000, nil),
		enqueueWith("j", "one", "a", "two", "b"),
		enqueueWith("j", "one", "c"),                   // the same job again: it keeps what it has
		enqueueWith("k", "one", "a"),                   // it has a job
		enqueueWith("k", "one", "x"),                   // does not exist
		enqueueWith("k", "one", "c", "two", "c"),       // one artefact for two names
		of("acme", enqueueWith("k", "one", "c")),       // of another tenant
		of("acme", reserveArtefact("c", 5, 1500, nil)), // whose own may have the same id
		of("acme", enqueueWith("l", "one", "c")),
		enqueueWith("k", "one", "c"),
	), fsm.OK, fsm.IDTaken, fsm.OK, fsm.OK, fsm.OK, fsm.OK, fsm.NoSuchArtefact, fsm.NoSuchArtefact, fsm.NoSuchArtefact, fsm.NoSuchArtefact,
		fsm.OK, fsm.OK, fsm.OK)
	for job, want := range map[string][]string{"j": {"one", "a", "two", "b"}, "k": {"one", "c"}, "l": {"one", "acme\x00c"}} {
		if got := artefactsOf(m, job); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", job, got, want)
		}
	}
	both := &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{
		enqueueWith("m", "x", "d").GetEnqueue().Jobs[0], enqueueWith("n", "x", "d").GetEnqueue().Jobs[0],
	}}}}
	results := apply(t, m, 1001, reserveArtefact("d", 5, 1300, nil), both)
	mustBe(t, m, results, fsm.OK, fsm.NoSuchArtefact)
	if results[1].Codes[1] != fsm.NoSuchArtefact || m.Job("m") != nil {
		t.Errorf("two jobs of a mutation with one artefact: %v", results[1].Codes)
	}
	if at, ok := m.NextDeadline(nil); !ok || at != 1300 {
		t.Errorf("the next deadline is %d, %v", at, ok)
	}
	mustBe(t, m, apply(t, m, 1300, enqueueWith("m", "x", "d")), fsm.NoSuchArtefact) // the reservation has ended
	results = apply(t, m, 1301, changeOf(fsm.DeleteJobs, "j"), dropArtefacts("a", "d"))
	mustBe(t, m, results, fsm.OK, fsm.OK)
	v := m.View()
	if results[1].Count != 2 || v.Artefact("a") != nil || v.Artefact("d") != nil || v.Artefact("b").ReleasedMs != 1301 || v.Artefact("c").ReleasedMs != 0 {
		t.Errorf("dropped %d: %v, %v, %v, %v", results[1].Count, v.Artefact("a"), v.Artefact("d"), v.Artefact("b"), v.Artefact("c"))
	}
}

func TestArtefactsOfJobsThatRun(t *testing.T) {
	m := fsm.New()
	results := apply(t, m, 1000, reserveArtefact("a", 5, 9000, nil), reserveArtefact("b", 5, 9000, nil), enqueue("j"), claim("w", 1))
	token := results[3].Jobs[0].Execution().Token
	results = apply(t, m, 1001,
		attachArtefact("w", "j", token, "n", "a"), attachArtefact("w", "j", token, "n", "a"), attachArtefact("w", "j", token, "m", "a"),
		attachArtefact("w", "j", token+1, "n", "b"), attachArtefact("v", "j", 0, "n", "b"), attachArtefact("w", "j", token, "n", "b"),
	)
	mustBe(t, m, results, fsm.OK, fsm.Duplicate, fsm.NoSuchArtefact, fsm.StaleToken, fsm.WrongWorker, fsm.OK)
	if got := artefactsOf(m, "j"); !slices.Equal(got, []string{"n", "b"}) || m.View().Artefact("a").ReleasedMs == 0 {
		t.Errorf("after the second artefact with the name: %q, %v", got, m.View().Artefact("a"))
	}
	muts, want := []*fsmpb.Mutation{}, []fsm.Code{}
	for i := range 16 {
		id := string(rune('c' + i))
		muts = append(muts, reserveArtefact(id, 5, 9000, nil), attachArtefact("w", "j", token, "x"+id, id))
		want = append(want, fsm.OK, fsm.OK)
	}
	want[len(want)-1] = fsm.TooManySteps // n is the sixteenth
	muts, want = append(muts, attachArtefact("w", "j", token, "n", "r")), append(want, fsm.OK)
	mustBe(t, m, apply(t, m, 1002, muts...), want...)
}

// The bytes of an artefact count for its producer, but not overall, because they are not in memory.
func TestQuotasOfArtefacts(t *testing.T) {
	m := fsm.New()
	quota := &fsmpb.Quota{Account: "acc", MaxBytes: 10_000}
	mustBe(t, m, apply(t, m, 1000, reserveArtefact("a", 9000, 9000, quota), reserveArtefact("b", 1000, 9000, quota), enqueueWith("j", "n", "a")),
		fsm.OK, fsm.TooManyTokenBytes, fsm.OK)
	if _, used := m.AccountUsage("acc"); used < 9000 || m.Bytes() > 1000 {
		t.Errorf("%d bytes of the account, %d overall", used, m.Bytes())
	}
	mustBe(t, m, apply(t, m, 1001, changeOf(fsm.DeleteJobs, "j"), reserveArtefact("b", 1000, 9000, quota)), fsm.OK, fsm.OK)
	settings := fsm.DefaultSettings()
	settings.MaxBytes = m.Bytes() + 100
	register := registerBroker("n", 1, settings)
	mustBe(t, m, apply(t, m, 1002, register, reserveArtefact("c", 0, 9000, nil)), fsm.OK, fsm.TooManyBytes)
}

// A job whose fields are replaced gets the artefacts of the new one, too.
func TestArtefactsOfReplacedJobs(t *testing.T) {
	m := fsm.New()
	replacing := func(id string, pairs ...string) *fsmpb.Mutation {
		e := enqueueWith(id, pairs...)
		e.GetEnqueue().Jobs[0].Optional().Unique = &fsmpb.Unique{Key: "k", Scope: uint32(fsm.UniqueWaiting), OnConflict: uint32(fsm.ConflictReplace)}
		return e
	}
	results := apply(t, m, 1000, reserveArtefact("a", 5, 9000, nil), reserveArtefact("b", 5, 9000, nil),
		replacing("j", "n", "a"), replacing("k", "m", "b"), replacing("l", "m", "b"), replacing("o"), replacing("p"))
	mustBe(t, m, results, fsm.OK, fsm.OK, fsm.OK, fsm.OK, fsm.NoSuchArtefact, fsm.OK, fsm.OK)
	if results[3].Codes[0] != fsm.Replaced || results[5].Codes[0] != fsm.Replaced || results[6].Codes[0] != fsm.Duplicate {
		t.Errorf("%v, %v, %v", results[3].Codes, results[5].Codes, results[6].Codes)
	}
	if v := m.View(); v.Artefact("a").ReleasedMs == 0 || v.Artefact("b").ReleasedMs == 0 || len(artefactsOf(m, "j")) != 0 {
		t.Errorf("%v, %v, %v", v.Artefact("a"), v.Artefact("b"), artefactsOf(m, "j"))
	}
}

// A repeated reservation gets the first id again.
func TestRepeatedReservation(t *testing.T) {
	m := fsm.New()
	reserve := func(id string) *fsmpb.Mutation {
		r := reserveArtefact(id, 5, 9000, nil)
		r.Request = &fsmpb.Request{Key: "k", Fingerprint: []byte("f")}
		return r
	}
	results := apply(t, m, 1000, reserve("a"), reserve("b"))
	mustBe(t, m, results, fsm.OK, fsm.Duplicate)
	if results[1].Jobs[0].ID != "a" || m.View().Artefact("b") != nil {
		t.Errorf("%v, %v", results[1].Jobs, m.View().Artefact("b"))
	}
}

func TestArtefactsThatNoJobCanHave(t *testing.T) {
	for what, m := range map[string]*fsmpb.Mutation{
		"unsorted":      enqueueWith("j", "b", "x", "a", "y"),
		"a short sum":   {Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: &fsmpb.ReserveArtefact{Id: "x", Sum: []byte("x")}}},
		"too large":     reserveArtefact("x", 5<<30+1, 1, nil),
		"no lease":      {Op: &fsmpb.Mutation_AttachArtefact{AttachArtefact: &fsmpb.AttachArtefact{Artefact: &fsmpb.NamedArtefact{Name: "n", Id: "x"}}}},
		"no artefact":   {Op: &fsmpb.Mutation_AttachArtefact{AttachArtefact: &fsmpb.AttachArtefact{Lease: &fsmpb.Lease{}}}},
		"of a schedule": {Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{Name: "c", Job: enqueueWith("", "n", "x").GetEnqueue().Jobs[0]}}},
		"of a callback": {Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{NewBatch: &fsmpb.NewBatch{Id: "b", Callback: enqueueWith("", "n", "x").GetEnqueue().Jobs[0]}}}},
	} {
		if _, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: 1, Mutations: []*fsmpb.Mutation{m}}); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}
