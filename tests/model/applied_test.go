package model_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/mem"
	"osqueue/tests/history"
	"osqueue/tests/model"
)

// scribe writes a log.
type scribe struct {
	t   *testing.T
	log []model.Entry
}

func (s *scribe) entry(now int64, muts ...*fsmpb.Mutation) {
	s.t.Helper()
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: now, Mutations: muts})
	if err != nil {
		s.t.Fatal(err)
	}
	s.log = append(s.log, model.Entry{Index: uint64(len(s.log) + 1), Term: 1, Data: data})
}

func enqueueOf(id string) *fsmpb.Mutation {
	return &fsmpb.Mutation{
		Op:      &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "t", Priority: 2}}}},
		Request: &fsmpb.Request{Key: "of " + id, Fingerprint: []byte("f")},
	}
}

func completeOf(id string, token uint64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: "w", Lease: &fsmpb.Lease{JobId: id, Token: token}, Result: []byte("1"),
	}}}
}

// epochOne is the floor of the tokens of the first epoch.
const epochOne = 1 << 32

// written is a log with everything that lines tell apart.
func written(t *testing.T) []model.Entry {
	s := &scribe{t: t}
	s.entry(1000, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{Node: "n1", Epoch: 1}}})
	s.entry(1001, enqueueOf("a"), enqueueOf("b"))
	s.entry(1002, enqueueOf("a")) // again
	s.entry(1003, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Max: 2, LeaseMs: 10, RequestId: "c1"}}})
	s.entry(1004, &fsmpb.Mutation{
		Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{
			completeOf("a", epochOne+1), completeOf("none", 9),
		}}},
		Request: &fsmpb.Request{Key: "g", Fingerprint: []byte("f")},
	})
	s.entry(2000, &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.CancelJobs), Ids: []string{"b"}}}})
	s.entry(2001) // nothing
	return s.log
}

func TestAppliedSaysWhatEachMutationDid(t *testing.T) {
	lines, states, err := model.Applied("n1", model.Log{Entries: written(t)}, fsm.LSN{Term: 1, Index: 4})
	if err != nil {
		t.Fatal(err)
	}
	job := func(id, status string, token uint64, attempts int) history.Item {
		it := history.Item{Job: id, Status: status, Type: "t", Priority: 2, Attempts: attempts, Token: token}
		if status == "in_progress" {
			it.Lease = 10 * history.Millisecond
		}
		if status == "unclaimed" {
			it.Since = 1001
		}
		return it
	}
	coded := func(it history.Item, code string) history.Item { it.Code = code; return it }
	done := job("a", "completed", epochOne+1, 1)
	done.End, done.Result = "completed", "1"
	back := job("b", "unclaimed", epochOne+2, 1)
	back.From, back.End = "in_progress", "lease_expired"
	off := job("b", "cancelled", epochOne+2, 1)
	off.Code, off.End = "ok", "lease_expired"
	want := []history.Applied{
		{LSN: lsnOf(1), Now: 1000, Kind: history.Broker, Worker: "n1", Epoch: 1, Code: "ok"},
		{LSN: lsnOf(2), Now: 1001, Kind: history.Enqueue, Request: "of a", Code: "ok", Jobs: []history.Item{coded(job("a", "unclaimed", 0, 0), "ok")}},
		{LSN: lsnOf(2), Now: 1001, Kind: history.Enqueue, Request: "of b", Code: "ok", Jobs: []history.Item{coded(job("b", "unclaimed", 0, 0), "ok")}},
		{LSN: lsnOf(3), Now: 1002, Kind: history.Enqueue, Request: "of a", Code: "duplicate"},
		{LSN: lsnOf(4), Now: 1003, Kind: history.Claim, Request: "c1", Worker: "w", Code: "ok", Jobs: []history.Item{
			job("a", "in_progress", epochOne+1, 1), job("b", "in_progress", epochOne+2, 1),
		}},
		{LSN: lsnOf(5), Now: 1004, Kind: history.Complete, Request: "g", Worker: "w", Code: "ok", Jobs: []history.Item{done}},
		{LSN: lsnOf(5), Now: 1004, Kind: history.Complete, Request: "g", Worker: "w", Code: "not_found", Jobs: []history.Item{{Job: "none", Token: 9}}},
		{LSN: lsnOf(6), Now: 2000, Kind: history.Passed, Code: "ok", Jobs: []history.Item{back}},
		{LSN: lsnOf(6), Now: 2000, Kind: history.Cancel, Code: "ok", Jobs: []history.Item{off}},
	}
	for i := range max(len(want), len(lines)) {
		var w, got history.Applied
		if i < len(want) {
			w = want[i]
			w.Node = "n1"
		}
		if i < len(lines) {
			got = lines[i]
		}
		if got.LSN != w.LSN || got.Kind != w.Kind || got.Request != w.Request || got.Worker != w.Worker || got.Code != w.Code ||
			got.Now != w.Now || got.Epoch != w.Epoch || got.Node != w.Node || !slices.Equal(got.Jobs, w.Jobs) {
			t.Errorf("line %d is %+v\nwant %+v", i, got, w)
		}
	}
	if len(states) != 2 || states[0].LSN != lsnOf(4) || states[1].LSN != lsnOf(7) || states[0].Hash == states[1].Hash {
		t.Errorf("states %+v: the one that was asked for and the last one", states)
	}
}

// A job that comes after its start-before expires in the entry that adds it, when a claim comes upon it: before that claim.
func TestAppliedSaysWhenALateJobExpires(t *testing.T) {
	s := &scribe{t: t}
	late := enqueueOf("a")
	late.GetEnqueue().Jobs[0].Optional().StartBeforeMs = 900
	s.entry(1000, late, enqueueOf("b"), &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Max: 1}}})
	lines, _, err := model.Applied("n1", model.Log{Entries: s.log})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		got = append(got, fmt.Sprintf("%s %s %s", l.Kind, l.Jobs[0].Job, l.Jobs[0].Status))
	}
	if want := []string{"enqueue a unclaimed", "time a expired", "enqueue b unclaimed", "claim b in_progress"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, v := range model.Check(&history.History{Applied: lines}, model.Options{}) {
		if v.Result == model.Violated {
			t.Errorf("%s: %v", v.Checker, v.Violations)
		}
	}
}

func lsnOf(index uint64) history.LSN { return history.LSN{LSN: fsm.LSN{Term: 1, Index: index}} }

// TestSnapshotsAgreeWithReplays: a log that continues from a snapshot comes to the same
// states, and the file itself has the state of its LSN.
func TestSnapshotsAgreeWithReplays(t *testing.T) {
	log := written(t)
	m := fsm.New()
	for _, e := range log[:4] {
		b, err := fsm.DecodeEntry(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(e.Index, e.Term, b)
	}
	var file bytes.Buffer
	if err := m.View().Encode(&file); err != nil {
		t.Fatal(err)
	}
	_, whole, err := model.Applied("n1", model.Log{Entries: log}, fsm.LSN{Term: 1, Index: 4})
	if err != nil {
		t.Fatal(err)
	}
	lines, part, err := model.Applied("n2", model.Log{Snapshot: file.Bytes(), Entries: log[4:]})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) == 0 || lines[0].Kind != history.Snapshot || len(lines[0].Jobs) != 2 {
		t.Fatalf("lines %+v: the first has the jobs of the snapshot", lines)
	}
	alone, err := model.SnapshotState("n3", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	h := &history.History{States: slices.Concat(whole, part, []history.State{alone})}
	if v := verdictOf(h, "Agree"); v.Result != model.OK || v.Checked != 3 {
		t.Errorf("%s, %d checked: %v", v.Result, v.Checked, v.Violations)
	}
	if _, err := model.SnapshotState("n3", nil); err == nil {
		t.Error("an empty file is a state")
	}
	if _, err := model.SnapshotState("n3", file.Bytes()[:file.Len()/2]); err == nil {
		t.Error("half a file is a state")
	}
	log[5].Data = log[5].Data[:3]
	if _, _, err := model.Applied("n1", model.Log{Entries: log}); err == nil {
		t.Error("a log that cannot be read was replayed")
	}
}

// TestVersionsAreHeldAgainstTheLog goes from real documents to the checker.
func TestVersionsAreHeldAgainstTheLog(t *testing.T) {
	h := newDocHistory(t)
	docs := [][]byte{h.enqueue("a"), h.enqueue("b")}
	states, err := model.Read(context.Background(), mem.New(), docs)
	if err != nil {
		t.Fatal(err)
	}
	at := []fsm.LSN{states[0].Header.LSN(), states[1].Header.LSN()}
	check := func(log []model.Entry) model.Verdict {
		lines, replayed, err := model.Applied("n1", model.Log{Entries: log}, at...)
		if err != nil {
			t.Fatal(err)
		}
		return verdictOf(&history.History{Applied: lines, Documents: model.Versions(states, replayed)}, "Documents")
	}
	if v := check(h.log); v.Result != model.OK || v.Checked != 2 {
		t.Errorf("%s, %d checked: %v", v.Result, v.Checked, v.Violations)
	}
	if v := check(h.log[:1]); v.Result != model.Violated {
		t.Error("a version beyond the log was accepted")
	}
	other := newDocHistory(t)
	other.enqueue("a")
	other.enqueue("x")
	if v := check(other.log); v.Result != model.Violated {
		t.Error("a version of another state was accepted")
	}
}
