package model_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/tests/model"
)

// docHistory is a log, and the document after each of its entries.
type docHistory struct {
	t       *testing.T
	machine *fsm.Machine
	log     []model.Entry
	header  document.Header
}

func newDocHistory(t *testing.T) *docHistory {
	return &docHistory{t: t, machine: fsm.New(), header: document.Header{
		Format: document.Format, Lineage: "l", Cluster: "c", Epoch: 1, Node: "n1", Address: "192.0.2.1:80", Write: "w",
	}}
}

// enqueue appends an entry and returns the document after it.
func (h *docHistory) enqueue(id string) []byte {
	h.t.Helper()
	index := uint64(len(h.log) + 1)
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: 1000, Mutations: []*fsmpb.Mutation{
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Payload: []byte("1")}}}}},
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.log = append(h.log, model.Entry{Index: index, Term: 1, Data: data})
	batch, err := fsm.DecodeEntry(data)
	if err != nil {
		h.t.Fatal(err)
	}
	h.machine.Apply(index, 1, batch)
	return h.document()
}

func (h *docHistory) document() []byte {
	h.t.Helper()
	lsn := h.machine.LSN()
	h.header.Term, h.header.Index = lsn.Term, lsn.Index
	tail := archive.NewTail(fsm.LSN{})
	for _, e := range h.log {
		if err := tail.Append(archive.Entry{LSN: fsm.LSN{Term: e.Term, Index: e.Index}, At: 1000, Data: e.Data}); err != nil {
			h.t.Fatal(err)
		}
	}
	c := &document.Content{Archive: &document.Archive{Tail: tail.Frame()}, Meta: h.machine.Meta(), Counts: h.machine.Counts()}
	return document.Encode(c, h.header, h.header.Address, 1000)
}
