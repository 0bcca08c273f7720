package model_test

import (
	"context"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/mem"
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
	lsn := h.machine.Meta().LSN
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

// The documents of a young queue have its log: these name nothing in the bucket.

func documents(versions [][]byte) error {
	states, err := model.Read(context.Background(), mem.New(), versions)
	if err != nil {
		return err
	}
	return model.Documents(states)
}

func replay(log []model.Entry, versions [][]byte) (int, error) {
	states, err := model.Read(context.Background(), mem.New(), versions)
	if err != nil {
		return 0, err
	}
	return model.Replay(model.Log{Entries: log}, states)
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want an error about %q", err, part)
	}
}

func TestDocumentsAndReplayAcceptTheTruth(t *testing.T) {
	h := newDocHistory(t)
	versions := [][]byte{h.document(), h.enqueue("a"), h.enqueue("b"), h.document()}
	if err := documents(versions); err != nil {
		t.Error(err)
	}
	if n, err := replay(h.log, versions); err != nil || n != len(versions) {
		t.Errorf("compared %d of %d: %v", n, len(versions), err)
	}
}

func TestDocumentsCatch(t *testing.T) {
	h := newDocHistory(t)
	a, b := h.enqueue("a"), h.enqueue("b")
	wantError(t, documents(nil), "no version")
	wantError(t, documents([][]byte{b, a}), "LSN goes back")
	wantError(t, documents([][]byte{a, b[:len(b)/2]}), "version 2 of 2")
	h.header.Node = "n2"
	wantError(t, documents([][]byte{b, h.document()}), "both wrote with epoch 1")
	h.header.Epoch = 2
	later := h.document()
	h.header.Node, h.header.Epoch = "n1", 1
	wantError(t, documents([][]byte{later, h.document()}), "epoch goes back")
	h.header.Lineage = "other"
	wantError(t, documents([][]byte{b, h.document()}), "lineage changes")
	h.header.Lineage = "l"
	other := newDocHistory(t)
	other.enqueue("a")
	wantError(t, documents([][]byte{b, other.enqueue("c")}), "two states")
}

func TestReplayCatches(t *testing.T) {
	h := newDocHistory(t)
	a := h.enqueue("a")
	other := newDocHistory(t)
	other.enqueue("x")
	_, err := replay(other.log, [][]byte{a})
	wantError(t, err, "not the machine's state")
	_, err = replay(other.log, [][]byte{h.enqueue("b")})
	wantError(t, err, "which the log does not have")
}

func TestLedgerCatches(t *testing.T) {
	for name, c := range map[string]struct {
		record func(*model.Ledger)
		jobs   map[string]string
		want   string
	}{
		"loss":              {func(l *model.Ledger) { l.Enqueued("a", true) }, nil, "lost"},
		"invention":         {func(*model.Ledger) {}, map[string]string{"a": "unclaimed"}, "never submitted"},
		"two completions":   {func(l *model.Ledger) { l.Enqueued("a", true); l.Completed("a", 1); l.Completed("a", 2) }, map[string]string{"a": "completed"}, "two claims"},
		"undone completion": {func(l *model.Ledger) { l.Enqueued("a", true); l.Completed("a", 1) }, map[string]string{"a": "unclaimed"}, "acknowledged as completed"},
		"token of two jobs": {func(l *model.Ledger) {
			l.Enqueued("a", true)
			l.Enqueued("b", true)
			l.Claimed("a", 1)
			l.Claimed("b", 1)
		}, map[string]string{"a": "", "b": ""}, "token 1"},
		"nothing":            {func(l *model.Ledger) { l.Enqueued("a", true); l.Completed("a", 1); l.Completed("a", 1) }, map[string]string{"a": "completed"}, ""},
		"unknown and absent": {func(l *model.Ledger) { l.Enqueued("a", false) }, nil, ""},
	} {
		l := model.NewLedger()
		c.record(l)
		err := l.Check(c.jobs)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" {
			wantError(t, err, c.want)
		}
	}
}

func TestLedgerCatchesWhatTheBucketHasNot(t *testing.T) {
	for name, c := range map[string]struct {
		record func(*model.Ledger)
		jobs   map[string]string
		want   string
	}{
		"loss":              {func(l *model.Ledger) { l.EnqueuedSafely("a") }, nil, "is lost"},
		"loss at quorum":    {func(l *model.Ledger) { l.Enqueued("a", true) }, nil, ""},
		"invention":         {func(*model.Ledger) {}, map[string]string{"a": "unclaimed"}, "never submitted"},
		"undone completion": {func(l *model.Ledger) { l.Enqueued("a", true); l.CompletedSafely("a", 1) }, map[string]string{"a": "unclaimed"}, "acknowledged as in the bucket"},
		"undone at quorum":  {func(l *model.Ledger) { l.Enqueued("a", true); l.Completed("a", 1) }, map[string]string{"a": "unclaimed"}, ""},
		"done again": {func(l *model.Ledger) {
			l.Enqueued("a", true)
			l.Claimed("a", 1)
			l.CompletedSafely("a", 1)
			l.Claimed("a", 2)
		}, map[string]string{"a": "completed"}, "handed out again"},
		"done by the second": {func(l *model.Ledger) {
			l.Enqueued("a", true)
			l.Claimed("a", 1)
			l.Claimed("a", 2)
			l.CompletedSafely("a", 2)
		}, map[string]string{"a": "completed"}, ""},
	} {
		l := model.NewLedger()
		c.record(l)
		err := l.CheckSafe(c.jobs)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" {
			wantError(t, err, c.want)
		}
	}
}
