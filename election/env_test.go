package election_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/recording"
	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	key     = "queue.json"
	timeout = 10_000
	start   = 1_700_000_000_000
)

// env is a bucket with faults, beneath which every accepted version is kept.
type env struct {
	testing.TB
	*fault.Bucket
	record *recording.Bucket
	// bare makes the documents show no jobs, and archived stands for what is in their archives.
	bare     bool
	archives atomic.Int64
	archived sync.Map // of *fsm.View, by the key of the checkpoint
}

func newEnv(t testing.TB) *env { return newEnvOn(t, mem.New()) }

func newEnvOn(t testing.TB, store storage.Bucket) *env {
	t.Helper()
	record := recording.New(store, nil)
	e := &env{TB: t, Bucket: fault.New(record, 1), record: record}
	t.Cleanup(func() { e.Close() })
	return e
}

// seed puts a document in place past the faults.
func (e *env) seed(text string) {
	e.Helper()
	if w := e.record.PutIfAbsent(e.Context(), key, []byte(text)); w.Outcome != storage.Committed {
		e.Fatalf("seed: %+v", w)
	}
}

// stored is the document past the faults.
func (e *env) stored() storage.Object {
	e.Helper()
	o, err := e.record.Get(e.Context(), key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		e.Fatalf("get: %v", err)
	}
	return o
}

// overwrite is a write of another program, without faults.
func (e *env) overwrite(data []byte) {
	e.Helper()
	w := e.record.PutIfMatch(e.Context(), key, data, e.stored().Version)
	if w.Outcome != storage.Committed {
		e.Fatalf("overwrite: %+v", w)
	}
}

func (e *env) read() election.Observed {
	e.Helper()
	o, err := election.Read(e.Context(), e, key)
	if err != nil {
		e.Fatalf("read: %v", err)
	}
	return o
}

func (e *env) doc() *document.File {
	e.Helper()
	doc, err := document.Decode(e.stored().Data)
	if err != nil {
		e.Fatalf("decode: %v", err)
	}
	return doc
}

// checkHistory holds every accepted version against the invariant: LSN and
// epoch never go back, and an epoch has one writer. It returns them as documents.
func (e *env) checkHistory() (docs []*document.File) {
	e.Helper()
	var last *document.Header
	writers := map[uint64]string{}
	ids := map[string]bool{}
	for _, entry := range e.record.History(key) {
		doc, err := document.Decode(entry.Data)
		if err != nil || doc.Header == nil {
			e.Fatalf("version %s: %v, header %v", entry.Version, err, doc)
		}
		h := doc.Header
		if last != nil && (h.LSN().Compare(last.LSN()) < 0 || h.Epoch < last.Epoch || h.Lineage != last.Lineage) {
			e.Fatalf("version %s went back: %+v after %+v", entry.Version, h, last)
		}
		if w := writers[h.Epoch]; w != "" && w != h.Node {
			e.Fatalf("epoch %d was written by %s and %s", h.Epoch, w, h.Node)
		}
		if ids[h.Write] || h.Writes[len(h.Writes)-1] != h.Write || len(h.Writes) > 16 {
			e.Fatalf("version %s has write id %s of %v", entry.Version, h.Write, h.Writes)
		}
		writers[h.Epoch], ids[h.Write], last = h.Node, true, h
		docs = append(docs, doc)
	}
	return docs
}

// node is a raft leader with its machine.
type node struct {
	*fsm.Machine
	election.Candidate
	term uint64
}

func newNode(name, cluster string) *node {
	return &node{
		Machine:   fsm.New(),
		Candidate: election.Candidate{Node: name, Address: name + ":8080", Cluster: cluster},
		term:      1,
	}
}

// enqueue applies one entry with a job.
func (n *node) enqueue(id string) *fsm.View {
	return n.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{
		Jobs: []*fsmpb.NewJob{{Id: id, Payload: []byte("1")}},
	}}})
}

// register applies what a new active leader does first.
func (n *node) register(f *election.Fence) *fsm.View {
	return n.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: n.Node, Address: n.Address, Cluster: n.Cluster, Epoch: f.Epoch(), Lineage: f.Lineage(),
	}}})
}

func (n *node) apply(mut *fsmpb.Mutation) *fsm.View {
	n.Apply(n.Machine.LSN().Index+1, n.term, &fsmpb.Batch{NowMs: start, Mutations: []*fsmpb.Mutation{mut}})
	return n.View()
}

func (n *node) candidate() election.Candidate {
	m := n.Meta()
	me := n.Candidate
	me.Lineage, me.LSN = m.Lineage, fsm.LSN{Term: n.term + m.TermBase, Index: m.LSN().Index}
	me.Applied, me.Epoch = m.LSN(), m.Epoch
	me.Populated = m.Lineage != "" || n.Counts() != fsm.Counts{}
	return me
}

// content returns the content that a leader with state v writes.
func (e *env) content(v *fsm.View) *document.Content {
	c := e.archive(v)
	if !e.bare {
		c.Jobs, c.ViewMax = v, document.ViewMax
	}
	return c
}

// archive puts v into an archive that reaches it by an entry of its tail.
func (e *env) archive(v *fsm.View) *document.Content {
	end := v.LSN()
	key := fmt.Sprintf("checkpoint/%d/manifest.json", e.archives.Add(1))
	e.archived.Store(key, v)
	a := &document.Archive{Checkpoint: document.Checkpoint{Key: key, Raw: 1}}
	if !end.IsZero() {
		a.Tail = document.Tail{Run: document.Run{Last: end, Entries: 1}, Data: []byte(end.String())}
	}
	return &document.Content{Meta: v.Meta(), Counts: v.Counts(), Archive: a}
}

// state returns the state that a document leads to.
func (e *env) state(doc *document.File) *fsm.View {
	e.Helper()
	v, ok := e.archived.Load(doc.Archive.Checkpoint.Key)
	if !ok {
		e.Fatalf("nobody has archived a state at %s", doc.Archive.LSN())
	}
	return v.(*fsm.View)
}

// acquire makes n the active leader.
func (e *env) acquire(n *node) *election.Fence {
	e.Helper()
	f, err := election.Acquire(e.Context(), e, key, e.read(), n.candidate(), e.content(n.View()), start)
	if err != nil {
		e.Fatalf("acquire: %v", err)
	}
	n.register(f)
	return f
}

// write must succeed.
func (e *env) write(f *election.Fence, v *fsm.View) {
	e.Helper()
	if err := f.Write(e.Context(), e.content(v), start); err != nil {
		e.Fatalf("write: %v", err)
	}
	if f.Viewed() == e.bare {
		e.Fatalf("viewed is %v", f.Viewed())
	}
	if f.Flushed() != v.LSN() {
		e.Fatalf("flushed %s, want %s", f.Flushed(), v.LSN())
	}
}

func short(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// hooked runs functions before operations reach a bucket.
type hooked struct {
	storage.Bucket
	beforeGet, beforePut func()
}

func (h *hooked) Get(ctx context.Context, k string) (storage.Object, error) {
	run(&h.beforeGet)
	return h.Bucket.Get(ctx, k)
}

func (h *hooked) PutIfMatch(ctx context.Context, k string, data []byte, v storage.Version) storage.Write {
	run(&h.beforePut)
	return h.Bucket.PutIfMatch(ctx, k, data, v)
}

// run calls what is there, once.
func run(f *func()) {
	if g := *f; g != nil {
		*f = nil
		g()
	}
}

// hashed is a store whose versions are hashes of the content, like S3's: the
// same bytes bring the same version back.
type hashed struct {
	*mem.Bucket
	mu sync.Mutex
}

func newHashed() *hashed { return &hashed{Bucket: mem.New()} }

func hashOf(data []byte) storage.Version {
	sum := sha256.Sum256(data)
	return storage.Version(hex.EncodeToString(sum[:8]))
}

func (h *hashed) Get(ctx context.Context, k string) (storage.Object, error) {
	o, err := h.Bucket.Get(ctx, k)
	if err == nil {
		o.Version = hashOf(o.Data)
	}
	return o, err
}

func (h *hashed) PutIfAbsent(ctx context.Context, k string, data []byte) storage.Write {
	w := h.Bucket.PutIfAbsent(ctx, k, data)
	if w.Outcome == storage.Committed {
		w.Version = hashOf(data)
	}
	return w
}

func (h *hashed) PutIfMatch(ctx context.Context, k string, data []byte, v storage.Version) storage.Write {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, err := h.Bucket.Get(ctx, k)
	if err != nil || hashOf(o.Data) != v {
		return storage.Write{Outcome: storage.Conflict, Err: err}
	}
	w := h.Bucket.PutIfMatch(ctx, k, data, o.Version)
	if w.Outcome == storage.Committed {
		w.Version = hashOf(data)
	}
	return w
}

// jobs lists the jobs of the state that the document leads to.
func (e *env) jobs() string {
	e.Helper()
	ids := ""
	e.state(e.doc()).List(fsm.Index{}, []fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
		ids += fmt.Sprintf("%s:%s ", j.ID, j.Status)
		return true
	})
	return ids
}

// registered returns the document as a legacy broker writes it when it registers: with its address
// and heartbeat, and all else as it was.
func registered(t *testing.T, doc []byte, address string, now int64) []byte {
	t.Helper()
	broker, heartbeat := regexp.MustCompile(`"broker":("[^"]*"|null)`), regexp.MustCompile(`"brokerHeartbeat":\d+`)
	if len(broker.FindAllIndex(doc, -1)) != 1 || len(heartbeat.FindAllIndex(doc, -1)) != 1 {
		t.Fatalf("no place for a broker in %s", doc)
	}
	doc = broker.ReplaceAllLiteral(doc, fmt.Appendf(nil, `"broker":%q`, address))
	return heartbeat.ReplaceAllLiteral(doc, fmt.Appendf(nil, `"brokerHeartbeat":%d`, now))
}

// heard returns the silence that a candidate measures at nowMs if it has seen the
// document since its last heartbeat.
func heard(d *document.File, nowMs int64) election.Silence {
	s := election.Silence{Timeout: timeout * time.Millisecond, Now: time.UnixMilli(nowMs)}
	if d != nil && nowMs-d.BrokerHeartbeat > timeout {
		s.For = s.Timeout
	}
	return s
}
