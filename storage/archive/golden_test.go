package archive

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The golden files are a bucket as it may exist in production: the objects under their keys,
// and the document a second time with its jobs. If a test fails, the format has
// changed: raise the version, and keep these files and the code that reads them. They may be
// regenerated only before the first release.
const (
	goldenDir    = "testdata/v1"
	goldenViewed = "testdata/v1-jobs.json"
)

// goldenWorld returns the bucket of the golden files, and the document that shows its
// jobs, under a key of its own.
func goldenWorld(t *testing.T) *world {
	t.Helper()
	if *update {
		writeGolden(t)
	}
	w := &world{ctx: t.Context(), bucket: mem.New()}
	err := filepath.WalkDir(goldenDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		must(err)
		key, err := filepath.Rel(goldenDir, path)
		must(err)
		return Put(w.ctx, w.bucket, filepath.ToSlash(key), data)
	})
	must(err)
	data, err := os.ReadFile(goldenViewed)
	must(err)
	must(Put(w.ctx, w.bucket, "jobs.json", data))
	return w
}

func writeGolden(t *testing.T) {
	t.Helper()
	w := fixedWorld(context.WithoutCancel(t.Context()), true)
	must(os.RemoveAll(goldenDir))
	for _, key := range w.names() {
		o, err := w.bucket.Get(w.ctx, key)
		must(err)
		path := filepath.Join(goldenDir, filepath.FromSlash(key))
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.WriteFile(path, o.Data, 0o644))
	}
	w.flush(false)
	o, err := w.bucket.Get(w.ctx, rootKey)
	must(err)
	must(os.WriteFile(goldenViewed, o.Data, 0o644))
}

// TestGolden reads every state of a bucket of the first version.
func TestGolden(t *testing.T) {
	t.Parallel()
	w := goldenWorld(t)
	for _, key := range []string{rootKey, "jobs.json"} {
		report, err := Verify(w.ctx, w.bucket, key)
		if err != nil || !report.OK() {
			t.Fatalf("%s: %+v, %v", key, report, err)
		}
		if report.Checkpoints != 2 || report.Segments != 6 || report.SegmentIndexes != 1 || report.Entries != 33 || report.Strays != 0 {
			t.Errorf("%s: %+v", key, report)
		}
		h, err := Open(w.ctx, w.bucket, key)
		if err != nil {
			t.Fatal(err)
		}
		if bare := key == rootKey; h.Document().Viewed == bare {
			t.Errorf("%s shows the jobs: %v", key, h.Document().Viewed)
		}
		// Each entry enqueued a job, and each third one claimed one.
		for i := range 33 {
			m, err := h.At(w.ctx, Target{LSN: fsm.LSN{Term: 1, Index: uint64(i) + 2}})
			if err != nil {
				t.Fatal(err)
			}
			counts := m.Counts()
			if meta := m.Meta(); meta.LSN().Index != uint64(i)+2 || meta.NowMs != 1_700_000_000_010+int64(i)*10 ||
				counts.Of(fsm.Unclaimed) != i+1-(i+1)/3 || counts.Of(fsm.InProgress) != (i+1)/3 {
				t.Errorf("%s at %s: %v at %d ms", key, meta.LSN(), counts, meta.NowMs)
			}
		}
	}
}

// TestGoldenWritten checks that the objects are written with the same bytes.
func TestGoldenWritten(t *testing.T) {
	t.Parallel()
	w := goldenWorld(t)
	seen := 0
	for _, key := range w.names() {
		n, ok := parseName(key)
		if !ok || n.kind != segmentKind && n.kind != segmentIndexKind {
			continue
		}
		o, err := w.bucket.Get(w.ctx, key)
		must(err)
		var ref document.Ref
		var again []byte
		if n.kind == segmentKind {
			s, err := openSegment(o.Data, key, nil)
			must(err)
			ref, again = Segment(n.lineage, document.Tail{Run: s.run, Data: s.frame})
		} else {
			refs, err := openSegmentIndex(o.Data, key, nil)
			must(err)
			ref, again = SegmentIndex(n.lineage, refs)
		}
		now, _ := parseName(ref.Key)
		n.id, now.id = "", ""
		if !bytes.Equal(again, o.Data) || now != n {
			t.Errorf("%s is written as %q, with other bytes or another name", key, ref.Key)
		}
		seen++
	}
	if seen != 7 {
		t.Errorf("%d objects of the log", seen)
	}
}

// TestFormatDoc compares the example of docs/format.md with the code: a segment, as a dump
// under its key.
func TestFormatDoc(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/format.md")
	must(err)
	key, rest, ok := strings.Cut(after(t, string(doc), "```dump log/"), "\n")
	key = "log/" + key
	dump, _, ended := strings.Cut(rest, "```")
	if !ok || !ended {
		t.Fatal("there is no dump of a segment")
	}
	object := undump(t, dump)
	s, err := openSegment(object, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.read()
	if err != nil || len(got) != 2 {
		t.Fatalf("%d entries, %v", len(got), err)
	}
	var raw []byte
	for _, e := range got {
		raw = append(e.appendHead(raw), e.Data...)
		if _, err := fsm.DecodeEntry(slices.Clone(e.Data)); err != nil {
			t.Error(err)
		}
	}
	framed, _, _ := strings.Cut(after(t, string(doc), "```dump entries\n"), "```")
	if want := undump(t, framed); !bytes.Equal(raw, want) {
		t.Errorf("the entries are\n%s", hex.Dump(raw))
	}
}

// after returns the part of s after a mark.
func after(t *testing.T, s, mark string) string {
	t.Helper()
	_, rest, ok := strings.Cut(s, mark)
	if !ok {
		t.Fatalf("there is no %q", mark)
	}
	return rest
}

// undump parses the output of hex.Dump.
func undump(t *testing.T, dump string) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(dump) {
		if len(line) < 60 {
			continue
		}
		for field := range strings.FieldsSeq(line[10:58]) {
			b, err := hex.DecodeString(field)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b...)
		}
	}
	return out
}

// TestPrintExample prints the example again after a change of the document.
func TestPrintExample(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	r := newRecorder(1_706_000_000_000)
	tail := NewTail(fsm.LSN{Term: 2, Index: 7})
	r.m = rebuilt(r.m)
	var raw []byte
	for i := range 2 {
		r.now += 5
		r.work(1)
		e := r.entries[i]
		e.LSN = fsm.LSN{Term: 2, Index: uint64(8 + i)}
		must(tail.Append(e))
		raw = append(e.appendHead(raw), e.Data...)
	}
	ref, object := Segment(lineage, tail.Frame())
	t.Logf("%s\n%s\nentries\n%s", ref.Key, hex.Dump(object), hex.Dump(raw))
}
