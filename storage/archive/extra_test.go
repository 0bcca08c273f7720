package archive

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// TestExtra takes unknown fields through checkpoint, segment and tail. An edit of such a field
// in a large document is neither a part of its state, which has a checksum, nor damage.
func TestExtra(t *testing.T) {
	set := func(id, extra string) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetExtra{SetExtra: &fsmpb.SetExtra{JobId: id, Extra: extra}}}
	}
	ctx, bucket, r := t.Context(), mem.New(), newRecorder(1000)
	r.apply(r.register(1))
	r.apply(enqueue(&fsmpb.NewJob{Id: "a", Extra: `{"note":"base"}`}, &fsmpb.NewJob{Id: "b"}, &fsmpb.NewJob{Id: "c"}), set("", `{"schema":1}`))
	checkpoint, err := WriteCheckpoint(ctx, bucket, lineage, fsm.LSN{}, r.m.View())
	if err != nil {
		t.Fatal(err)
	}
	tail := NewTail(checkpoint.LSN)
	r.apply(set("b", `{"note":"segment"}`), set("", `{"schema":2}`))
	must(tail.Append(r.after(checkpoint.LSN)...))
	ref, object := Segment(lineage, tail.Frame())
	must(Put(ctx, bucket, ref.Key, object))
	tail = NewTail(ref.Last)
	r.apply(set("c", `{"note":"tail"}`))
	must(tail.Append(r.after(ref.Last)...))
	c := &document.Content{
		Meta: r.m.Meta(), Counts: r.m.Counts(),
		Archive: &document.Archive{Checkpoint: checkpoint, Log: []document.Ref{ref}, Tail: tail.Frame()},
	}
	for _, edited := range []string{`{"schema":2}`, `{"schema":3,"owner":null}`, ""} {
		c.Meta.Extra = edited
		data := document.Encode(c, document.Header{Lineage: lineage, Cluster: "c1", Node: "n1", Epoch: 1}, "h:8080", 5)
		doc, err := document.Decode(data)
		if err != nil || doc.Meta.Extra != edited {
			t.Fatalf("%v, or the document has %s, want %s", err, doc.Meta.Extra, edited)
		}
		m, err := Machine(ctx, bucket, doc)
		if err != nil {
			t.Fatal(err)
		}
		if m.View().Hash() != r.m.View().Hash() || m.Meta().Extra != `{"schema":2}` {
			t.Errorf("with %s in the document it is another state: %+v", edited, m.Meta())
		}
		for id, want := range map[string]string{"a": "base", "b": "segment", "c": "tail"} {
			if got := m.Job(id).Details().Extra; got != `{"note":"`+want+`"}` {
				t.Errorf("job %s has %s, from the %s", id, got, want)
			}
		}
		_ = bucket.Delete(ctx, rootKey)
		must(Put(ctx, bucket, rootKey, data))
		report, err := Verify(ctx, bucket, rootKey, VerifyOptions{})
		if err != nil || !report.OK() {
			t.Errorf("with %s in the document: %v, %+v", edited, err, report)
		}
	}
}
