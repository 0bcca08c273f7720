package archive

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// TestRepair does everything to each object, and has the bucket repaired.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{true, false} {
		whole := fixedWorld(t.Context(), large)
		for _, key := range whole.names() {
			for what, how := range damages {
				t.Run(fmt.Sprint(what, " ", key, " ", large), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := whole.copied(t.Context())
						w.damage(key, how)
						w.checkRepair(t, key)
					})
				})
			}
		}
	}
}

func (w *world) checkRepair(t *testing.T, key string) {
	t.Helper()
	before := w.names()
	old, err := w.bucket.Get(w.ctx, rootKey)
	if errors.Is(err, storage.ErrNotFound) {
		return
	}
	r, err := Repair(w.ctx, w.bucket, rootKey, RepairOptions{Force: true})
	if err != nil {
		t.Fatalf("%v; before: %v", err, r.Before)
	}
	if r.Written == r.Before.Sound() {
		t.Errorf("written: %v, with problems %v", r.Written, r.Before.Problems)
	}
	for _, name := range before {
		if !slices.Contains(w.names(), name) {
			t.Errorf("%s is not there any more", name)
		}
	}
	w.checkRepaired(t, r, w.expectedAfter(key))
	if !r.Written {
		return
	}
	if o, err := w.bucket.Get(w.ctx, r.Copy); err != nil || !bytes.Equal(o.Data, old.Data) {
		t.Errorf("the copy %q: %v", r.Copy, err)
	}
}

// expectedAfter returns the newest state that can be recovered without an object.
func (w *world) expectedAfter(key string) fsm.LSN {
	a := w.root.Archive
	n, ok := parseName(key)
	if key == rootKey {
		return a.Tail.After // the rest stood in the document
	}
	// The segments of an index exist, and so does an older checkpoint. So only a segment after
	// the root's checkpoint makes a difference.
	if ok && n.kind == segmentKind && n.after.Compare(a.Checkpoint.LSN) >= 0 {
		return n.after
	}
	return w.root.LSN()
}

// checkRepaired: all is well, and the state is at least the one expected.
func (w *world) checkRepaired(t *testing.T, r *Repaired, want fsm.LSN) {
	t.Helper()
	report, err := Verify(w.ctx, w.bucket, rootKey)
	if err != nil || !report.Sound() {
		t.Fatalf("after the repair: %+v, %v", report, err)
	}
	h, err := Open(w.ctx, w.bucket, rootKey)
	if err != nil {
		t.Fatal(err)
	}
	doc := h.Document()
	m, err := Machine(w.ctx, w.bucket, doc)
	if err != nil {
		t.Fatal(err)
	}
	lsn := m.LSN()
	if lsn.Compare(want) < 0 || r.To != lsn && r.Written || m.View().Hash() != w.chain[lsn] {
		t.Errorf("it is %s, said to be %s, and should be %s; or another state", lsn, r.To, want)
	}
	if r.Written && (doc.Header.Epoch <= w.epoch || doc.Header.Lineage != lineage || doc.Broker != nil || doc.Overtaken ||
		!slices.Equal(doc.Header.Writes, []string{doc.Header.Write})) {
		t.Errorf("the header is %+v after epoch %d", doc.Header, w.epoch)
	}
	w.checkPlaces(t)
}

// TestRepairOfTheRoot flips and cuts the document anywhere.
func TestRepairOfTheRoot(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{true, false} {
		whole := fixedWorld(t.Context(), large)
		o, err := whole.bucket.Get(whole.ctx, rootKey)
		must(err)
		for i := 0; i < len(o.Data); i += 223 {
			synctest.Test(t, func(t *testing.T) {
				w := whole.copied(t.Context())
				w.damage(rootKey, func(data []byte) []byte { return data[:i] })
				want := w.root.Archive.Tail.After
				if r, err := Repair(w.ctx, w.bucket, rootKey, RepairOptions{Force: true}); err != nil {
					t.Errorf("cut at %d: %v", i, err)
				} else {
					w.checkRepaired(t, r, want)
				}
			})
		}
	}
}

// TestRepairOfDescriptions checks that damage to the document's description of an object costs
// nothing: the object is intact by itself, and the document is to blame.
func TestRepairOfDescriptions(t *testing.T) {
	t.Parallel()
	whole := fixedWorld(t.Context(), true)
	o, err := whole.bucket.Get(whole.ctx, rootKey)
	must(err)
	kept, log := bytes.Index(o.Data, []byte(`"kept":`)), bytes.Index(o.Data, []byte(`"log":`)) // no state depends on what is kept
	end := bytes.Index(o.Data, []byte(`"tail":`))
	damaged := 0
	for _, field := range []string{`"sha256":"`, `"stored":`, `"raw":`, `"until":`, `"at":`} {
		for i := bytes.Index(o.Data, []byte(`"checkpoint":`)); i < end; i++ {
			if !bytes.HasPrefix(o.Data[i:], []byte(field)) || i > kept && i < log {
				continue
			}
			w := whole.copied(t.Context())
			w.damage(rootKey, func(data []byte) []byte {
				data = bytes.Clone(data)
				data[i+len(field)+2] ^= 1
				return data
			})
			if _, err := Open(w.ctx, w.bucket, rootKey); err != nil {
				continue
			}
			damaged++
			r, err := Repair(w.ctx, w.bucket, rootKey, RepairOptions{Force: true})
			if err != nil || !r.Written || r.To != w.root.LSN() {
				t.Fatalf("%s at byte %d: %+v, %v", field, i, r, err)
			}
			for _, p := range r.Before.Problems {
				if p.Key != rootKey {
					t.Errorf("%s at byte %d: %v", field, i, p)
				}
			}
			w.checkRepaired(t, r, w.root.LSN())
		}
	}
	if damaged < 8 {
		t.Errorf("only %d fields were damaged", damaged)
	}
}

// FuzzRecovery checks that the fields that are read of any document are those in the document.
func FuzzRecovery(f *testing.F) {
	w := fixedWorld(f.Context(), true)
	o, err := w.bucket.Get(w.ctx, rootKey)
	must(err)
	f.Add(o.Data)
	f.Add(o.Data[:len(o.Data)/2])
	f.Add([]byte(`{"osqueue":{"format":1,"lineage":"l","epoch":"18014398509481984"},"jobs":[]}`))
	f.Add([]byte(`{"osqueue":{"format":9,"lineage":"l"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := recoverDocument(data)
		if err != nil {
			return
		}
		doc, err := document.Decode(data)
		if err != nil || doc.Header == nil {
			return
		}
		if h := got.header; h != nil && (h.Lineage != doc.Header.Lineage || h.Epoch != doc.Header.Epoch || h.LSN() != doc.Header.LSN()) {
			t.Fatalf("%+v is read as %+v", doc.Header, h)
		}
	})
}

// A recovery reads a damaged document in the format that this version writes, and refuses later
// ones.
func TestRecoveryReadsTheFormat(t *testing.T) {
	const cut = `{"broker":null,"brokerHeartbeat":1,"osqueue":{"format":%d,"lineage":"L","cluster":"c","epoch":1,"node":"n","term":1,"index":1},"jobs":[{"id`
	for format := document.Format; format <= document.Format+1; format++ {
		w, err := recoverDocument(fmt.Appendf(nil, cut, format))
		newer := format > document.Format
		if newer != errors.Is(err, errNewer) || !newer && (w.header == nil || w.header.Lineage != "L") {
			t.Errorf("format %d: %+v, %v", format, w.header, err)
		}
	}
}
