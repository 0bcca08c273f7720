package flush

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/recording"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

const docKey = "queue.json"

// world is a bucket that outlives its clusters, with the known states of these clusters. It
// checks every version of the document when the store accepts it, behind all faults.
type world struct {
	testing.TB
	*storagetest.Counts
	store   *mem.Bucket
	record  *recording.Bucket
	closing []func() error
	// sample is the number of versions for each one whose state is read; the others get a
	// shorter check.
	sample int
	// below is the bucket that clusters use.
	below storage.Bucket

	mu        sync.Mutex
	known     map[fsm.LSN]known
	confirmed map[fsm.LSN]bool // LSNs for which WaitFlushed returned nil
	header    *document.Header
	viewed    bool
	root      *document.Archive
	versions  int
}

// known is a state that a cluster had.
type known struct {
	sum    [sha256.Size]byte
	parent fsm.LSN
	at     int64
}

func newWorld(t testing.TB, c *storagetest.Counts) *world {
	t.Helper()
	w := &world{TB: t, Counts: c, store: mem.New(), sample: 1, known: make(map[fsm.LSN]known), confirmed: make(map[fsm.LSN]bool)}
	w.record = recording.New(w.store, w.accepted)
	w.below = w.record
	return w
}

// close ends operations that faults still block.
func (w *world) close() {
	for _, fn := range w.closing {
		if err := fn(); err != nil {
			w.Error(err)
		}
	}
}

// note records a state. An LSN must never name two states.
func (w *world) note(v *fsm.View, parent fsm.LSN) {
	k := known{v.Hash(), parent, v.Meta().Now}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.known[v.LSN()]; ok && old != k {
		w.Errorf("two states have LSN %s", v.LSN())
	}
	w.known[v.LSN()] = k
}

func (w *world) confirm(lsn fsm.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.confirmed[lsn] = true
	w.One("confirmed")
}

// accepted is called for every write that the store accepts.
func (w *world) accepted(e recording.Entry) {
	switch {
	case e.How == recording.Deleted:
		w.deleted(e.Key)
	case e.Key == docKey:
		w.rooted(e.Data)
	case strings.HasSuffix(e.Key, ".seg"):
		w.One("segment")
	case strings.HasSuffix(e.Key, ".idx"):
		w.One("segment index")
	case strings.HasSuffix(e.Key, "manifest.json"):
		w.One("checkpoint")
	}
}

// rooted checks a new version of the document: it is readable, it is the state at its LSN,
// and neither LSN nor epoch went back.
func (w *world) rooted(data []byte) {
	doc, err := document.Decode(data)
	if err != nil || doc.Header == nil {
		w.Errorf("a version of the document cannot be read: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(doc)
	h, last := doc.Header, w.header
	if last != nil && (h.LSN().Compare(last.LSN()) < 0 || h.Epoch < last.Epoch || h.Lineage != last.Lineage) {
		w.Errorf("the document went back: %+v after %+v", h, last)
	}
	w.noteForm(doc)
	w.header, w.viewed, w.root = h, doc.Viewed, doc.Archive
}

func (w *world) noteForm(doc *document.File) {
	if doc.Viewed {
		w.One("jobs")
	} else {
		w.One("no jobs")
	}
	switch {
	case w.viewed && !doc.Viewed:
		w.One("jobs leave")
	case !w.viewed && doc.Viewed:
		w.One("jobs return")
	}
	a := doc.Archive
	if a.Checkpoint.Key == "" {
		w.One("young")
	}
	if a.Checkpoint.Prev != a.Checkpoint.LSN && (w.root == nil || w.root.Checkpoint.Key != a.Checkpoint.Key) {
		w.One("checkpoint over a gap")
	}
}

// look checks a version of the document, and reads the state of a sample.
func (w *world) look(doc *document.File) {
	if w.versions++; w.versions%w.sample == 0 {
		w.open(doc)
		return
	}
	if _, ok := w.known[doc.LSN()]; !ok {
		w.Errorf("the document is at %s, where nobody was", doc.LSN())
	}
	a := doc.Archive
	if _, err := archive.ResumeTail(&a.Tail); err != nil {
		w.Errorf("the document at %s: %v", doc.LSN(), err)
	}
	var keys []string
	if a.Checkpoint.Key != "" {
		keys = append(keys, a.Checkpoint.Key)
	}
	for i := range a.Log {
		keys = append(keys, a.Log[i].Key)
	}
	for _, key := range keys {
		if _, err := w.store.Get(context.Background(), key); err != nil {
			w.Errorf("the document at %s names what is not there: %v", doc.LSN(), err)
		}
	}
}

// open reads the state of a document, bypassing the faults.
func (w *world) open(doc *document.File) {
	m, err := archive.Machine(context.Background(), w.store, doc)
	if err != nil {
		w.Errorf("the document at %s cannot be read: %v", doc.LSN(), err)
		return
	}
	want, ok := w.known[doc.LSN()]
	if !ok || m.Meta().LSN != doc.LSN() || m.View().Hash() != want.sum {
		w.Errorf("the document at %s is not the state at its LSN (known: %v)", doc.LSN(), ok)
	}
}

// deleted checks that the document does not need the removed object.
func (w *world) deleted(key string) {
	w.One("deleted")
	w.mu.Lock()
	defer w.mu.Unlock()
	if key == docKey || w.root != nil && w.needs(w.root, key) {
		w.Errorf("%s was removed, and the document needs it", key)
	}
}

// needs reports whether an archive contains an object.
func (w *world) needs(a *document.Archive, key string) bool {
	if of := strings.TrimSuffix(a.Checkpoint.Key, "manifest.json"); of != "" && strings.HasPrefix(key, of) {
		return true
	}
	for i := range a.Log {
		own := a.Log[i].Key
		if own == key {
			return true
		}
		if o, err := w.store.Get(context.Background(), own); err == nil && archive.IsSegmentIndex(own) && strings.Contains(string(o.Data), key) {
			return true
		}
	}
	return false
}

// chain returns the LSNs of a state and of all its predecessors, newest first.
func (w *world) chain(lsn fsm.LSN) (all []fsm.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		k, ok := w.known[lsn]
		if !ok {
			return all
		}
		all = append(all, lsn)
		if lsn.IsZero() {
			return all
		}
		lsn = k.parent
	}
}

// inspect checks the bucket after the loss of all nodes: the document is readable, it has
// all confirmed entries, nothing is damaged, and the kept past is correct.
func (w *world) inspect(r *rand.Rand) {
	w.Helper()
	seen, err := election.Read(w.Context(), w.store, docKey)
	if err != nil {
		w.Fatal(err)
	}
	if seen.Doc == nil {
		if len(w.confirmed) > 0 {
			w.Fatal("something was confirmed, and there is no document")
		}
		return
	}
	w.mu.Lock()
	w.open(seen.Doc)
	w.mu.Unlock()
	chain := w.chain(seen.Doc.LSN())
	on := make(map[fsm.LSN]bool, len(chain))
	for _, lsn := range chain {
		on[lsn] = true
	}
	for lsn := range w.confirmed {
		if !on[lsn] {
			w.Errorf("%s was confirmed, and the document is at %s", lsn, seen.Doc.LSN())
		}
	}
	w.verify()
	w.rewind(r, chain)
}

// verify makes the archive check every object.
func (w *world) verify() {
	w.Helper()
	report, err := archive.Verify(w.Context(), w.store, docKey)
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range report.Problems {
		w.Errorf("verify: %s", p)
	}
}

// rewind restores some states of the past. The archive must report the states that it
// cannot restore.
func (w *world) rewind(r *rand.Rand, chain []fsm.LSN) {
	w.Helper()
	h, err := archive.Open(w.Context(), w.store, docKey)
	if err != nil {
		w.Fatal(err)
	}
	for range min(6, len(chain)) {
		lsn := chain[r.IntN(len(chain))]
		if lsn.IsZero() {
			continue
		}
		m, err := h.At(w.Context(), archive.Target{LSN: lsn})
		switch {
		case errors.Is(err, archive.ErrNotKept):
			w.One("not kept")
		case err != nil:
			w.Errorf("the state at %s: %v", lsn, err)
		case m.Meta().LSN != lsn || m.View().Hash() != w.known[lsn].sum:
			w.Errorf("the state at %s is restored as another one, of %s", lsn, m.Meta().LSN)
		default:
			w.One("restored")
		}
	}
}

// simConfig returns a configuration in which every mechanism runs within some hundred
// entries.
func simConfig() Config {
	cfg := DefaultConfig()
	cfg.Window = 5 * time.Second
	cfg.ViewMax, cfg.TailMax, cfg.TailMin = 16<<10, 1<<10, 128
	cfg.SegmentRaw, cfg.StepBytes = 2<<10, 8<<10
	cfg.CompactAt, cfg.RefsMax, cfg.CheckpointMin = 4, 12, 2<<10
	return cfg
}

const simUnflushedLog = 32 << 10

// brokerTimeout is the broker timeout of the legacy broker.
const brokerTimeout = 10 * time.Second
