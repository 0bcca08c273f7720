package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/sleep"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a bucket and a cluster of which only the machine is real. It lives as long as
// the bucket does; leaders change.
type world struct {
	t      *testing.T
	store  *mem.Bucket   // the stored objects
	bucket *fault.Bucket // the bucket of the leaders, with faults

	mu      sync.Mutex
	machine *fsm.Machine
	log     []*fsmpb.Batch // all entries since the beginning
	decided map[string]int // by id: number of the entry after which a file's job is in the machine, or not needed
	flushed int            // number of entries in the document in the bucket
	term    uint64         // of the leader
	autoOff bool           // flushes wait for flush()
	refuse  error          // error of Propose

	gets, lists atomic.Int64 // requests of leaders
}

func newWorld(t *testing.T, settings ...func(*fsm.Settings)) *world {
	w := &world{t: t, store: mem.New(), machine: fsm.New(), decided: map[string]int{}, term: 1}
	w.bucket = fault.New(w.store, 1)
	t.Cleanup(func() { w.bucket.Close() })
	s := fsm.DefaultSettings()
	for _, set := range settings {
		set(s)
	}
	w.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n", Address: "h:1", Epoch: 1, Cluster: "c", Lineage: "l", Settings: s,
	}}})
	w.flushed = len(w.log)
	return w
}

func (w *world) apply(ms ...*fsmpb.Mutation) ([]fsm.Result, fsm.LSN) {
	b := &fsmpb.Batch{NowMs: time.Now().UnixMilli(), Mutations: ms}
	w.log = append(w.log, b)
	res := w.machine.Apply(uint64(len(w.log)), w.term, b)
	for i, m := range ms {
		if jobs := m.GetEnqueue().GetJobs(); len(jobs) == 1 && m.Request != nil && judge(res[i]) <= repeated {
			w.decided[jobs[0].Id] = len(w.log)
		}
	}
	return res, w.machine.LSN()
}

// do applies a mutation of another client.
func (w *world) do(m *fsmpb.Mutation) fsm.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	res, _ := w.apply(m)
	return res[0]
}

// loseAll loses every node: the flushed state comes back.
func (w *world) loseAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = w.log[:w.flushed]
	w.machine = fsm.New()
	for i, b := range w.log {
		w.machine.Apply(uint64(i+1), 1, b)
	}
	maps.DeleteFunc(w.decided, func(_ string, at int) bool { return at > w.flushed })
}

func (w *world) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed = len(w.log)
}

func (w *world) job(id string) *fsm.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.Job(id)
}

// inFlushed reports whether the document in the bucket contains the outcome of the job.
func (w *world) inFlushed(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.decided[id]
	return at > 0 && at <= w.flushed
}

// leader starts a new leader: earlier ones cannot propose any more.
func (w *world) leader() *leader {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.term++
	return &leader{world: w, term: w.term}
}

var errNotLeader = errors.New("this node is not the leader")

// leader is one leader term from the view of a box.
type leader struct {
	*world
	term uint64
}

// Enqueue implements Queue.
func (l *leader) Enqueue(ctx context.Context, files []File) ([]Answer, fsm.LSN, error) {
	answers := make([]Answer, len(files))
	var ms []*fsmpb.Mutation
	var good []*Answer
	for i, f := range files {
		m, err := parse(f.ID, f.Data)
		if err != nil {
			answers[i].Defect = err
			continue
		}
		m.Request = f.Request
		ms, good = append(ms, m), append(good, &answers[i])
	}
	if len(ms) == 0 {
		return answers, fsm.LSN{}, nil
	}
	results, lsn, err := l.propose(ctx, ms)
	for i, res := range results {
		good[i].Result = res
	}
	return answers, lsn, err
}

func (l *leader) propose(ctx context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, fsm.LSN{}, ctx.Err()
	case l.term != l.world.term:
		return nil, fsm.LSN{}, errNotLeader
	case l.refuse != nil:
		return nil, fsm.LSN{}, l.refuse
	}
	res, lsn := l.apply(ms...)
	return res, lsn, nil
}

// WaitFlushed implements Queue.
func (l *leader) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	for {
		l.mu.Lock()
		switch {
		case l.term != l.world.term:
			l.mu.Unlock()
			return errNotLeader
		case !l.autoOff:
			l.world.flushed = len(l.log)
		}
		done := uint64(l.world.flushed) >= lsn.Index
		l.mu.Unlock()
		if done {
			return ctx.Err()
		}
		if !sleep.For(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// interval is the interval of the boxes in tests.
const interval = 10 * time.Second

// testBox is a box with the queue of one leader.
type testBox struct {
	*Box
	queue Queue
}

// box returns a box of this leader.
func (l *leader) box() testBox {
	return testBox{New(Config{Bucket: &watched{l.bucket, l.world}, Interval: interval}), l}
}

// Run runs the box with its leader.
func (b testBox) Run(ctx context.Context) { b.Box.Run(ctx, b.queue) }

func (b testBox) newTerm() *leaderTerm { return newLeaderTerm(b.Box, b.queue) }

// parse replaces the parser of package api.
func parse(id string, data []byte) (*fsmpb.Mutation, error) {
	var in struct {
		ID      string         `json:"id"`
		Type    string         `json:"type"`
		Payload jsontext.Value `json:"payload"`
		After   []string       `json:"after"`
		Unique  string         `json:"unique"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("the body is not valid JSON: %w", err)
	}
	if in.ID != "" && in.ID != id || len(id) > 128 {
		return nil, errors.New("the id is wrong")
	}
	j := &fsmpb.NewJob{Id: id, Type: in.Type, Payload: in.Payload, Options: &fsmpb.Options{After: in.After}}
	if in.Unique != "" {
		j.Optional().Unique = &fsmpb.Unique{Key: in.Unique, Scope: uint32(fsm.UniqueActive)}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{j}}}}, nil
}

// watched counts requests. At every removal of a file it checks that the job is in the
// bucket's document, or that the bytes are among the rejected files.
type watched struct {
	storage.Bucket
	w *world
}

func (b *watched) Get(ctx context.Context, key string) (storage.Object, error) {
	b.w.gets.Add(1)
	return b.Bucket.Get(ctx, key)
}

func (b *watched) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	if prefix == Prefix { // the marks are listed once in a leader term
		b.w.lists.Add(1)
	}
	return b.Bucket.List(ctx, prefix, fn)
}

func (b *watched) Delete(ctx context.Context, key string) error {
	id, ok := idOf(key)
	mark := strings.HasPrefix(key, takenPrefix)
	if !ok && !mark {
		b.w.t.Errorf("%s is removed", key)
	}
	if o, err := b.w.store.Get(context.Background(), key); err == nil && !mark && !b.w.inFlushed(id) && !b.w.isKept(o.Data) {
		b.w.t.Errorf("%s is removed, and is neither in the document nor in rejected", key)
	}
	return b.Bucket.Delete(ctx, key)
}

func (w *world) isKept(data []byte) bool {
	for _, key := range w.keys(RejectedPrefix) {
		if w.read(key) == string(data) {
			return true
		}
	}
	return false
}

// put puts a file into the store, bypassing all faults.
func (w *world) put(name, data string) {
	w.t.Helper()
	if got := w.store.PutIfAbsent(context.Background(), Prefix+name, []byte(data)); got.Outcome != storage.Committed {
		w.t.Fatalf("put %s: %+v", name, got)
	}
}

// rejected puts a file under the prefix of rejected files.
func (w *world) rejected(name, data string) {
	w.t.Helper()
	if got := w.store.PutIfAbsent(context.Background(), RejectedPrefix+name, []byte(data)); got.Outcome != storage.Committed {
		w.t.Fatalf("put %s: %+v", name, got)
	}
}

// drop puts jobs without content.
func (w *world) drop(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.put(id+".json", `{"type":"t"}`)
	}
}

func (w *world) keys(prefix string) []string {
	keys := []string{}
	err := w.store.List(context.Background(), prefix, func(o storage.Info) bool {
		keys = append(keys, o.Key)
		return true
	})
	if err != nil {
		w.t.Error(err)
	}
	return keys
}

func (w *world) read(key string) string {
	o, err := w.store.Get(context.Background(), key)
	if err != nil {
		w.t.Error(err)
	}
	return string(o.Data)
}

// files returns the names in the inbox.
func (w *world) files() []string { return w.keys(Prefix) }

// enqueued returns how often the machine has added a job with that id, in the history of
// the current state.
func (w *world) enqueued(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, n := fsm.New(), 0
	for i, b := range w.log {
		for k, res := range m.Apply(uint64(i+1), 1, b) {
			jobs := b.Mutations[k].GetEnqueue().GetJobs()
			if len(jobs) == 1 && jobs[0].Id == id && judge(res) == added {
				n++
			}
		}
	}
	return n
}

// wantOnce checks that the jobs are in the machine, each added once, and that the inbox is
// empty.
func (w *world) wantOnce(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if n := w.enqueued(id); n != 1 || w.job(id) == nil {
			w.t.Errorf("job %s was added %d times; now it is %v", id, n, w.job(id))
		}
	}
	if left := w.files(); len(left) > 0 {
		w.t.Errorf("left in the box: %s", strings.Join(left, " "))
	}
}

// run runs a box for a time, in the bubble of the caller.
func run(b testBox, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	b.Run(ctx)
	synctest.Wait()
}

// complete makes a worker complete the next job, which must be the job with that id.
func (w *world) complete(id string) {
	w.t.Helper()
	got := w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Max: 1, RequestId: id}}})
	if len(got.Jobs) != 1 || got.Jobs[0].ID != id {
		w.t.Fatalf("claimed %+v", got)
	}
	done := w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Worker: "w", Lease: &fsmpb.Lease{JobId: id, Token: got.Jobs[0].Execution().Token}}}})
	if done.Code != fsm.OK {
		w.t.Fatalf("completed %+v", done)
	}
}
