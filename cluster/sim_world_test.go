package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"osqueue/fsm"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/recording"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// simWorld is a bucket, the known states of all nodes that ever used it, and the
// violations. Its methods are safe for concurrent use.
type simWorld struct {
	trace  *simTrace
	counts *storagetest.Counts
	store  *mem.Bucket
	record *recording.Bucket
	r      *rand.Rand // used by the goroutine that sets the run up

	mu       sync.Mutex
	states   map[fsm.LSN]*simState
	views    []fsm.LSN             // states whose view is still kept, oldest first
	ledgers  map[string]*simLedger // by cluster, its present line
	lines    []*simLedger          // all lines
	tokens   map[uint64]string     // job by token, of the whole run
	asked    map[string]bool       // ids of jobs that producers have requested
	edits    map[string]simEdit    // that producers have requested, by payload
	delays   map[uint64]int64      // ms; of releases, by token
	accepted [][]byte              // versions of the document that are to be checked
	latest   []byte                // the version that was accepted last
	renewed  time.Time             // when
	silence  time.Duration         // longest time between two of them since a scene has reset it
	sizes    map[string]int        // largest object of each kind that cluster a was to write, bytes
	offered  map[string]int        // the same, all objects together
	last     *document.File        // version that was checked last
	audit    *archive.Audit        // of what documents name
	told     map[string]fsm.LSN    // by cluster, the newest LSN in an answer
	versions int
	// mayAdopt says that a cluster may take its state from the bucket.
	mayAdopt  bool
	failures  []string
	adoptions int
}

// simState is the state at one LSN.
type simState struct {
	view   *fsm.View // nil: not kept any more
	hashed bool
	hash   [sha256.Size]byte
	ledger *simLedger // line of history of the state
}

func newSimWorld(seed uint64, counts *storagetest.Counts) *simWorld {
	w := &simWorld{
		trace: newSimTrace(), counts: counts, store: mem.New(), r: rand.New(rand.NewPCG(seed, 1)),
		states: make(map[fsm.LSN]*simState), ledgers: make(map[string]*simLedger),
		tokens: make(map[uint64]string), asked: make(map[string]bool), told: make(map[string]fsm.LSN),
		edits: make(map[string]simEdit), delays: make(map[uint64]int64),
		sizes: make(map[string]int), offered: make(map[string]int),
	}
	w.audit = archive.NewAudit(w.store)
	// The document of a new cluster has no entry yet.
	w.states[fsm.LSN{}] = &simState{view: fsm.New().View(), ledger: newSimLedger(w, "")}
	w.record = recording.New(w.store, w.wrote)
	return w
}

// wrote notes what the store has accepted.
func (w *simWorld) wrote(e recording.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.How == recording.Deleted:
		w.removedLocked(e.Key)
	case e.Key == DocumentKey:
		if now := time.Now(); w.latest != nil {
			w.silence, w.renewed = max(w.silence, now.Sub(w.renewed)), now
		} else {
			w.renewed = now
		}
		w.accepted, w.latest = append(w.accepted, e.Data), e.Data
	case strings.HasSuffix(e.Key, ".seg"):
		w.counts.One("segment")
	case archive.IsSegmentIndex(e.Key):
		w.counts.One("segment index")
	case strings.HasSuffix(e.Key, "manifest.json"):
		w.counts.One("checkpoint")
	}
}

// removedLocked checks that the document does not need an object that was removed.
func (w *simWorld) removedLocked(key string) {
	if key == DocumentKey {
		w.failLocked("the document was removed")
		return
	}
	doc, err := document.Decode(w.latest)
	if err != nil || doc.Archive == nil || !strings.HasPrefix(key, "log/") && !strings.HasPrefix(key, "checkpoint/") {
		return
	}
	w.counts.One("check: removed object is not needed")
	of := strings.TrimSuffix(doc.Archive.Checkpoint.Key, "manifest.json")
	if of != "" && strings.HasPrefix(key, of) || slices.ContainsFunc(doc.Archive.Log, func(r document.Ref) bool { return w.has(r.Key, key) }) {
		w.failLocked("%s was removed, and the document at %s needs it", key, doc.LSN())
	}
}

// has reports whether an object of the log is the one with the key, or a segment index that names it.
func (w *simWorld) has(object, key string) bool {
	if object == key || !archive.IsSegmentIndex(object) {
		return object == key
	}
	o, err := w.store.Get(context.Background(), object)
	return err == nil && bytes.Contains(o.Data, []byte(key))
}

// weighed returns a bucket that notes the sizes of what is to be written.
func (w *simWorld) weighed(b storage.Bucket) storage.Bucket {
	return storage.Decorate(b, func(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		if c.Op.IsWrite() {
			kind, _, _ := strings.Cut(c.Key, "/")
			if archive.IsSegmentIndex(c.Key) {
				kind = "segment index"
			}
			w.mu.Lock()
			w.sizes[kind] = max(w.sizes[kind], c.Bytes)
			w.offered[kind] += c.Bytes
			w.mu.Unlock()
		}
		return next(ctx)
	})
}

func (w *simWorld) rand() *rand.Rand { return rand.New(rand.NewPCG(w.r.Uint64(), 2)) }

// failf records a violation.
func (w *simWorld) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

const simFailuresMax = 20

func (w *simWorld) failLocked(format string, args ...any) {
	f := fmt.Sprintf(format, args...)
	w.trace.printf("VIOLATION %s", f)
	if len(w.failures) < simFailuresMax {
		w.failures = append(w.failures, fmt.Sprintf("%s %s", w.trace.at(), f))
	}
}

func (w *simWorld) failed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failures
}

// closeNode closes a node that is cut off from everything, or has stepped down.
func (w *simWorld) closeNode(l *simLife) {
	defer func() {
		if p := recover(); p != nil {
			w.failf("%s panics at its end: %v\n%s", l.place.name, p, debug.Stack())
		}
	}()
	if err := l.Close(); err != nil {
		w.trace.printf("%s closed with %v", l.place.name, err)
	}
}

// simViews is the number of states whose view is kept, to compare documents with them.
const simViews = 1500

// simSample is the number of states of which one is compared between all nodes.
const simSample = 8

// applied records an entry that a node has applied, with its events.
func (w *simWorld) applied(n *simNode, v *fsm.View, events []fsm.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lsn := v.LSN()
	if s := w.states[lsn]; s != nil {
		w.compareLocked(n.name, s, v)
		return
	}
	ledger := w.ledgers[n.cluster.name]
	if ledger == nil {
		ledger = newSimLedger(w, n.cluster.name)
		w.ledgers[n.cluster.name] = ledger
		w.lines = append(w.lines, ledger)
	}
	w.keepLocked(v, ledger)
	w.counts.One("entry applied")
	ledger.note(v, events)
}

func (w *simWorld) keepLocked(v *fsm.View, l *simLedger) {
	w.states[v.LSN()] = &simState{view: v, ledger: l}
	w.views = append(w.views, v.LSN())
	if len(w.views) > simViews {
		w.states[w.views[0]].view = nil
		w.views = w.views[1:]
	}
}

// sumLocked returns the state's hash, if it is still known.
func (s *simState) sumLocked() (sum [sha256.Size]byte, ok bool) {
	if !s.hashed && s.view != nil {
		s.hash, s.hashed = s.view.Hash(), true
	}
	return s.hash, s.hashed
}

// compareLocked compares the states of two nodes at one LSN.
func (w *simWorld) compareLocked(who string, s *simState, v *fsm.View) {
	if v.LSN().Index%simSample != 0 {
		return
	}
	sum, ok := s.sumLocked()
	if !ok {
		return
	}
	w.counts.One("check: equal states")
	if sum != v.Hash() {
		w.failLocked("%s has another state at %s than the node before it", who, v.LSN())
	}
}

// restored records a state that replaced the whole state of a node: a snapshot of its
// cluster, or the state of the document.
func (w *simWorld) restored(l *simLife, v *fsm.View) {
	w.checkDocuments()
	w.mu.Lock()
	defer w.mu.Unlock()
	name, lsn := l.place.name, v.LSN()
	if s := w.states[lsn]; s != nil {
		sum, ok := s.sumLocked()
		w.counts.One("snapshot restored")
		if ok && sum != v.Hash() {
			w.failLocked("%s has restored another state at %s than there was", name, lsn)
		}
		return
	}
	from := l.gate.lastSeen()
	old := w.states[from]
	w.adoptions++
	w.counts.One("adoption")
	w.trace.printf("%s adopts the document of %s as %s", name, from, lsn)
	switch {
	case old == nil:
		w.failLocked("%s adopts a document of %s, where nobody was", name, from)
		return
	case !w.mayAdopt:
		w.failLocked("%s adopts a document of %s though nothing was lost", name, from)
	}
	own, line := w.ledgers[l.place.cluster.name], old.ledger
	if from.IsZero() && len(w.lines) > 0 {
		line = w.lines[0] // which began with that document
	}
	if own != nil && own.from == from && own.end == nil {
		own.superseded(own.base) // its disks were lost before it had written the document
	}
	next := line.fork(l.place.cluster.name, from, v, own)
	if own != nil && own.end == nil && len(own.jobs) > 0 {
		w.failLocked("%s leaves a line of history that nobody has gone on with", name)
	}
	w.ledgers[l.place.cluster.name] = next
	w.lines = append(w.lines, next)
	w.keepLocked(v, next)
}

// simDocSample is the number of versions of the document of which one is read as a state.
const simDocSample = 10

// checkDocuments checks the versions of the document that were accepted since the last
// call.
func (w *simWorld) checkDocuments() {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.accepted
	w.accepted = nil
	for i, data := range all {
		w.checkDocumentLocked(data)
		if i == len(all)-1 && w.last != nil && w.last.Archive != nil {
			w.checkNamedLocked(w.last)
		}
	}
}

func (w *simWorld) checkDocumentLocked(data []byte) {
	doc, err := document.Decode(data)
	if err != nil || doc.Header == nil {
		w.failLocked("a version of the document cannot be read: %v", err)
		return
	}
	h, before := doc.Header, w.last
	w.last = doc
	w.versions++
	w.counts.One("check: document in order")
	w.noteForm(before, doc)
	var last *document.Header
	if before != nil {
		last = before.Header
	}
	s := w.states[h.LSN()]
	if s == nil {
		w.failLocked("the document is at %s, where nobody was", h.LSN())
		return
	}
	fresh := last == nil || last.Epoch != h.Epoch
	if last != nil && (h.LSN().Compare(last.LSN()) < 0 || h.Epoch < last.Epoch || h.Lineage != last.Lineage) {
		w.failLocked("the document went back: %s of epoch %d after %s of epoch %d", h.LSN(), h.Epoch, last.LSN(), last.Epoch)
	}
	if !fresh && last.Node != h.Node {
		w.failLocked("%s wrote the document in the epoch of %s", h.Node, last.Node)
	}
	if !fresh && w.versions%simDocSample != 0 {
		return
	}
	w.openDocumentLocked(doc, s)
}

// noteForm counts the forms of the document.
func (w *simWorld) noteForm(before, doc *document.File) {
	if doc.Archive == nil {
		return
	}
	for form, is := range map[string]bool{
		"document without jobs":   !doc.Viewed,
		"jobs leave the document": before != nil && before.Viewed && !doc.Viewed,
		"jobs return":             before != nil && !before.Viewed && doc.Viewed,
		"young document":          doc.Archive.Checkpoint.Key == "",
		"checkpoint over a gap":   gap(before, doc),
	} {
		if is {
			w.counts.One(form)
		}
	}
}

// gap reports whether the log before the checkpoint of a document does not reach it.
func gap(before, doc *document.File) bool {
	c := &doc.Archive.Checkpoint
	return c.Key != "" && c.Prev != c.LSN && (before == nil || before.Archive == nil || before.Archive.Checkpoint.Key != c.Key)
}

// checkNamedLocked checks that what a document names is there, if the document is the newest one.
func (w *simWorld) checkNamedLocked(doc *document.File) {
	found, err := w.audit.Missing(context.Background(), doc.Archive)
	if err != nil || found != nil {
		w.failLocked("the document at %s names what is not there: %+v, %v", doc.LSN(), found, err)
	}
	w.counts.One("check: what the document names is there")
}

// openDocumentLocked reads the state of a document and compares it with the state of the
// nodes.
func (w *simWorld) openDocumentLocked(doc *document.File, s *simState) {
	sum, ok := s.sumLocked()
	if !ok {
		w.counts.One("document too old to compare")
		return
	}
	m, err := archive.Machine(context.Background(), w.store, doc)
	switch {
	case err != nil:
		w.failLocked("the document at %s cannot be read: %v", doc.Header.LSN(), err)
	case m.LSN() != doc.Header.LSN() || m.View().Hash() != sum:
		w.failLocked("the document at %s is not the state of the nodes there", doc.Header.LSN())
	default:
		w.counts.One("check: document is a state")
	}
}

// ask records that a producer is about to request a job.
func (w *simWorld) ask(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[id] = true
}

// simTrace keeps the last events of a run, by simulated time.
type simTrace struct {
	start time.Time

	mu    sync.Mutex
	lines []string
	n     int
}

const simTraceLines = 20_000

func newSimTrace() *simTrace { return &simTrace{start: time.Now(), lines: make([]string, 0, 1024)} }

func (t *simTrace) at() string { return fmt.Sprintf("%10.3f", time.Since(t.start).Seconds()) }

func (t *simTrace) printf(format string, args ...any) {
	line := t.at() + " " + fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) < simTraceLines {
		t.lines = append(t.lines, line)
	} else {
		t.lines[t.n%simTraceLines] = line
	}
	t.n++
}

// Write implements io.Writer, for the logs of the nodes.
func (t *simTrace) Write(p []byte) (int, error) {
	if line := string(p); !strings.Contains(line, ".raft: failed to") { // there are too many of these
		t.printf("%s", strings.TrimSpace(line))
	}
	return len(p), nil
}

// last returns the last lines, oldest first.
func (t *simTrace) last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.lines
	if t.n > simTraceLines {
		at := t.n % simTraceLines
		all = append(append([]string{}, t.lines[at:]...), t.lines[:at]...)
	}
	return append([]string{}, all[max(0, len(all)-n):]...)
}
