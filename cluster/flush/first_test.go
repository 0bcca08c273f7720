package flush

import (
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// newborn is a machine with its unflushed log.
type newborn struct {
	t   *testing.T
	m   *fsm.Machine
	log *UnflushedLog
}

func (b *newborn) apply(jobs ...string) {
	b.t.Helper()
	op := &fsmpb.Enqueue{}
	for _, id := range jobs {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: id})
	}
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: 1000, Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}}})
	if err != nil {
		b.t.Fatal(err)
	}
	batch, err := fsm.DecodeEntry(data)
	if err != nil {
		b.t.Fatal(err)
	}
	b.m.Apply(b.m.LSN().Index+1, 1, batch)
	b.log.Append(archive.Entry{LSN: b.m.LSN(), At: b.m.Now(), Data: data})
}

// first checks that a document with the first content leads to the state, and returns it.
func (b *newborn) first(bucket storage.Bucket, doc *document.File, adopted bool) *document.File {
	b.t.Helper()
	c, err := First(b.t.Context(), DefaultConfig(), bucket, "l", doc, b.m.View(), b.log, adopted)
	if err != nil {
		b.t.Fatal(err)
	}
	back, err := document.Decode(document.Encode(c, document.Header{Lineage: "l"}, "a:1", 1))
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := archive.Machine(b.t.Context(), bucket, back)
	if err != nil || m.View().Hash() != b.m.View().Hash() {
		b.t.Fatalf("the document leads to another state: %v", err)
	}
	return back
}

func objects(t *testing.T, bucket storage.Bucket) (n int) {
	t.Helper()
	if err := bucket.List(t.Context(), "", func(storage.Info) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFirstOfAYoungQueue writes no object: the document has the whole log.
func TestFirstOfAYoungQueue(t *testing.T) {
	bucket := mem.New()
	b := &newborn{t, fsm.New(), NewUnflushedLog(1 << 20)}
	b.apply("a")
	doc := b.first(bucket, nil, false)
	if doc.Archive.Checkpoint.Key != "" || !doc.Viewed || doc.Header.Counts[fsm.Unclaimed] != 1 {
		t.Fatalf("%+v", doc.Header)
	}
	b.apply("b", "c")
	doc = b.first(bucket, doc, false) // a successor
	if doc.Archive.Checkpoint.Key != "" || doc.Header.Counts[fsm.Unclaimed] != 3 || objects(t, bucket) != 0 {
		t.Fatalf("%+v, %d objects", doc.Header, objects(t, bucket))
	}
}

// TestViewBetweenItsBounds checks that a view between 192 and 256 KiB stays, and does not return, with
// a takeover as with a flush.
func TestViewBetweenItsBounds(t *testing.T) {
	bucket := mem.New()
	b := &newborn{t, fsm.New(), NewUnflushedLog(1 << 20)}
	var jobs []string
	for i := range 3400 { // of 65 bytes each
		jobs = append(jobs, fmt.Sprintf("j%04d", i))
	}
	b.apply(jobs...)
	doc := b.first(bucket, nil, false)
	if !doc.Viewed {
		t.Fatal("a new document does not show the jobs")
	}
	for _, viewed := range []bool{true, false} {
		doc.Viewed = viewed
		if got := b.first(bucket, doc, false); got.Viewed != viewed {
			t.Errorf("after a view (%v) the document of a successor has one: %v", viewed, got.Viewed)
		}
		d := NewDocumentBuilder(DefaultConfig(), bucket, "l", &document.Content{Archive: doc.Archive, Meta: new(fsm.Meta)}, b.log, b.m.View, hclog.NewNullLogger())
		c, _, err := d.Draft(t.Context(), viewed)
		d.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, got := document.AppendTo(nil, c, document.Header{Lineage: "l"}, "a:1", 1); got != viewed {
			t.Errorf("after a view (%v) the next document has one: %v", viewed, got)
		}
	}
}

// TestFirstWithoutTheLog writes a checkpoint: the entries from the beginning are not in memory, or
// the state was adopted.
func TestFirstWithoutTheLog(t *testing.T) {
	for name, adopted := range map[string]bool{"a restored state": false, "an adopted state": true} {
		bucket := mem.New()
		b := &newborn{t, fsm.New(), NewUnflushedLog(1 << 20)}
		b.apply("a")
		if !adopted {
			b.log.Reset(b.m.LSN())
		}
		if doc := b.first(bucket, nil, adopted); doc.Archive.Checkpoint.LSN != b.m.LSN() || !doc.Viewed {
			t.Errorf("%s: %+v", name, doc.Archive)
		}
	}
}

// TestFirstOfASuccessorWithoutTheLog keeps the document as it is, for the next flush to continue.
func TestFirstOfASuccessorWithoutTheLog(t *testing.T) {
	bucket := mem.New()
	b := &newborn{t, fsm.New(), NewUnflushedLog(1 << 20)}
	b.apply("a")
	doc := b.first(bucket, nil, false)
	b.apply("b")
	b.log.Reset(b.m.LSN())
	c, err := First(t.Context(), DefaultConfig(), bucket, "l", doc, b.m.View(), b.log, false)
	if err != nil || c.LSN() != doc.LSN() || c.Jobs != nil || c.Counts != doc.Header.Counts || c.Check() != nil {
		t.Fatalf("%v, %+v", err, c)
	}
}
