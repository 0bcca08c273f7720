package election_test

import (
	"errors"
	"testing"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage/document"
)

// carried returns the content of the document, to be written again unchanged.
func carried(doc *document.File) *document.Content {
	h := doc.Header
	return &document.Content{
		Meta:   &fsm.Meta{Term: h.LSN().Term, Index: h.LSN().Index, Lineage: h.Lineage, Cluster: h.Cluster, Epoch: h.Registered},
		Counts: h.Counts, Archive: doc.Archive,
	}
}

// TestCarriedOver takes a document over with the archive that is in it
// already, before the new leader catches up.
func TestCarriedOver(t *testing.T) {
	e := newEnv(t)
	e.bare = true
	n := newNode("n1", "A")
	n.enqueue("a")
	f := e.acquire(n)
	e.write(f, n.enqueue("b"))

	second := newNode("n2", "A")
	second.Machine, second.term = copyOf(t, n.Machine), 2
	second.enqueue("c") // answered, and not flushed
	o := e.read()
	g, err := election.Acquire(t.Context(), e, key, o, second.candidate(), carried(o.Doc), start)
	if err != nil || g.Epoch() != 2 || g.Flushed() != o.Doc.Header.LSN() || g.Viewed() {
		t.Fatalf("acquire: %v, %+v", err, g)
	}
	if doc := e.doc(); doc.Header.Node != "n2" || doc.Header.LSN() != o.Doc.Header.LSN() || e.jobs() != "a:unclaimed b:unclaimed " {
		t.Fatalf("header %+v, jobs %s", doc.Header, e.jobs())
	}
	var fenced *election.FencedError
	if err := f.Write(t.Context(), e.content(n.enqueue("x")), start); !errors.As(err, &fenced) || fenced.Epoch != 2 {
		t.Fatalf("write of the deposed leader: %v", err)
	}
	if err := g.Write(t.Context(), carried(o.Doc), start); err != nil { // it still is not ready
		t.Fatalf("a heartbeat: %v", err)
	}
	e.write(g, second.register(g))
	if e.jobs() != "a:unclaimed b:unclaimed c:unclaimed " {
		t.Fatalf("jobs %s", e.jobs())
	}
	if err := g.Write(t.Context(), carried(o.Doc), start); !errors.Is(err, election.ErrOlderState) {
		t.Fatalf("write of what was carried over, later: %v", err)
	}
	e.checkHistory()
}

// TestCarriedEpoch continues from the epoch in the candidate's log, when neither the
// document, which comes from a backup, nor the content that is carried over has it.
func TestCarriedEpoch(t *testing.T) {
	e := newEnv(t)
	e.bare = true
	n := newNode("n1", "A")
	e.write(e.acquire(n), n.View())
	backup := e.stored().Data
	for range 2 {
		e.write(e.acquire(n), n.View())
	}
	e.overwrite(backup)
	o := e.read()
	f, err := election.Acquire(t.Context(), e, key, o, n.candidate(), carried(o.Doc), start)
	if err != nil || f.Epoch() != 4 {
		t.Fatalf("acquire: %v, %+v", err, f)
	}
	e.write(f, n.register(f))
}

// TestChangeOfView lets the jobs leave the document, and return.
func TestChangeOfView(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	for i, viewed := range []bool{true, false, false, true, false} {
		c := e.content(n.enqueue(string(rune('a' + i))))
		if !viewed {
			c.ViewMax = 1
		}
		if err := f.Write(t.Context(), c, start); err != nil || f.Viewed() != viewed || e.doc().Viewed != viewed || f.Size() != len(e.stored().Data) {
			t.Fatalf("write: %v; viewed %v, document %v", err, f.Viewed(), e.doc().Viewed)
		}
		if f.Flushed() != c.LSN() {
			t.Fatalf("flushed %s", f.Flushed())
		}
	}
	if e.jobs() != "a:unclaimed b:unclaimed c:unclaimed d:unclaimed e:unclaimed " {
		t.Fatalf("jobs %s", e.jobs())
	}
	e.checkHistory()
}

// TestFaultyContent is refused before anything is sent.
func TestFaultyContent(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	faulty := map[string]func(c *document.Content){
		"nothing":          func(c *document.Content) { c.Archive = nil },
		"a hole":           func(c *document.Content) { c.Archive.Tail.After = fsm.LSN{Term: 1} },
		"another LSN":      func(c *document.Content) { c.Archive.Tail.Last.Index++ },
		"no key":           func(c *document.Content) { c.Archive.Checkpoint.Key = "" },
		"a tail with none": func(c *document.Content) { c.Archive.Tail.Data = nil },
	}
	for name, spoil := range faulty {
		c := e.archive(n.enqueue("job of " + name))
		spoil(c)
		if _, err := election.Acquire(t.Context(), e, key, e.read(), n.candidate(), c, start); err == nil {
			t.Errorf("%s: acquired", name)
		}
	}
	if len(e.stored().Data) > 0 {
		t.Fatal("something was written")
	}
	f := e.acquire(n)
	before := e.stored().Version
	for name, spoil := range faulty {
		c := e.archive(n.enqueue("later job of " + name))
		spoil(c)
		if err := f.Write(t.Context(), c, start); err == nil || errors.Is(err, election.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e.stored().Version != before {
		t.Fatal("something was written")
	}
	e.write(f, n.View())
}
