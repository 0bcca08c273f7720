package document_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

var header = document.Header{
	Lineage: "li", Cluster: "cl", Epoch: 7, Node: "n1", Write: "w2", Writes: []string{"w1", "w2"},
	Fence: document.Fence{
		Heartbeat: 3e9, Timeout: 10e9, Outage: 300e9, Members: []document.Member{{Name: "n1", Address: "a:1", Host: "h"}}, Standbys: []string{"s"},
	},
	Handovers: []document.Handover{{Cluster: "before", Epoch: 3, Term: 1, Index: 2, LastSeq: 4, Token: 3<<32 + 1, Now: 5}},
}

const address, heartbeat = "10.0.0.1:8080", 1_700_000_000_000

// apply applies one entry.
func apply(t interface{ Fatalf(string, ...any) }, m *fsm.Machine, muts ...*fsmpb.Mutation) {
	for _, res := range m.Apply(m.LSN().Index+1, 1, &fsmpb.Batch{NowMs: heartbeat, Mutations: muts}) {
		if err := res.Code.Err(); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

func enqueue(jobs ...*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}

func claim(worker string, n uint32) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: worker, Max: n}}}
}

// queue returns a machine with jobs of each status that a document shows, and of others.
func queue(t testing.TB) *fsm.Machine {
	m := fsm.New()
	apply(t, m, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n1", Address: address, Epoch: 7, Cluster: "cl", Lineage: "li",
	}}})
	five := int32(5)
	apply(t, m, enqueue(
		&fsmpb.NewJob{Id: "a", Type: "mail", Payload: []byte(` {"n": 1, "n": 2} `)},
		&fsmpb.NewJob{Id: "b", Payload: []byte("\xff"), MaxAttempts: &five},
		&fsmpb.NewJob{Id: "c\xff", Type: "\xff"},
		&fsmpb.NewJob{Id: "later", RunAtMs: heartbeat + 1},
		&fsmpb.NewJob{Id: "blocked", Options: &fsmpb.Options{After: []string{"a"}}},
	))
	apply(t, m, claim("w", 1))
	return m
}

// contentOf returns a content with a state, and an archive of that LSN.
func contentOf(v *fsm.View) *document.Content {
	return &document.Content{Archive: reaching(v.LSN()), Meta: v.Meta(), Counts: v.Counts(), Jobs: v, ViewMax: document.ViewMax}
}

// reaching returns an archive that ends at an LSN, with all of its parts.
func reaching(end fsm.LSN) *document.Archive {
	at := func(index uint64) fsm.LSN { return fsm.LSN{Term: end.Term, Index: index} }
	a := &document.Archive{
		Checkpoint: document.Checkpoint{Key: "checkpoint/k", LSN: at(0), Prev: at(0), At: 3, Raw: 1, Stored: 2, Sum: document.Sum{1}},
		Tail:       document.Tail{Run: document.Run{After: at(1), Last: end}},
		Log: []document.Ref{{
			Key: "log/k", Run: document.Run{After: at(0), Last: at(1), Entries: 1, From: 4, Until: 5, Raw: 6}, Stored: 7, Sum: document.Sum{2},
		}},
	}
	if n := end.Index - 1; n > 0 {
		a.Tail.Entries, a.Tail.From, a.Tail.Until, a.Tail.Raw, a.Tail.Sum, a.Tail.Data = n, 8, 9, 10, document.Sum{3}, []byte{0, 255, 1}
	}
	return a
}

func decode(t testing.TB, data []byte) *document.File {
	t.Helper()
	d, err := document.Decode(data)
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return d
}

// legacyOf returns the document without a header, and its machine.
func legacyOf(t testing.TB, text string) (*document.File, *fsm.Machine) {
	t.Helper()
	d := decode(t, []byte(text))
	m, err := d.Legacy()
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return d, m
}
