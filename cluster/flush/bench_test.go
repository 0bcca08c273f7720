package flush

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

const docKey = "queue.json"

// drain is a bucket that accepts every write, keeps only the document, and counts.
type drain struct {
	storage.Bucket // nil: no other method is called

	mu      sync.Mutex
	version int
	doc     []byte
	bytes   map[string]int64 // by kind of object
	puts    map[string]int
}

func newDrain() *drain { return &drain{bytes: make(map[string]int64), puts: make(map[string]int)} }

func (d *drain) take(key string, n int) storage.Write {
	kind, _, _ := strings.Cut(key, "/")
	d.bytes[kind] += int64(n)
	d.puts[kind]++
	d.version++
	return storage.Write{Outcome: storage.Committed, Version: storage.Version(fmt.Sprint(d.version))}
}

// PutIfAbsent implements storage.Bucket.
func (d *drain) PutIfAbsent(_ context.Context, key string, data []byte) storage.Write {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.take(key, len(data))
}

// PutIfMatch implements storage.Bucket.
func (d *drain) PutIfMatch(_ context.Context, key string, data []byte, _ storage.Version) storage.Write {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doc = data
	return d.take(key, len(data))
}

// Get implements storage.Bucket.
func (d *drain) Get(context.Context, string) (storage.Object, error) {
	return storage.Object{}, storage.ErrNotFound
}

func (d *drain) total() (all map[string]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all = make(map[string]int64)
	for kind, n := range d.bytes {
		all[kind] = n
	}
	return all
}

// busy is a queue of constant depth, with the parts of its flusher.
type busy struct {
	b       testing.TB
	m       *fsm.Machine
	payload func(r *rand.Rand, i int) []byte
	r       *rand.Rand
	jobs    int
	now     int64
	held    []*fsmpb.Lease
	written int64 // bytes of entries

	bucket    *drain
	unflushed *UnflushedLog
	builder   *DocumentBuilder
	fence     *election.Fence
}

// mailPayload returns typical JSON of 200 bytes.
func mailPayload(r *rand.Rand, i int) []byte {
	p := fmt.Appendf(nil, `{"to":"user%d@example.com","template":"order-confirmation","locale":"en-GB","variables":`+
		`{"order":%d,"token":"%016x","total":"%d.90"},"reply":"no-reply@shop.example.com"`,
		r.IntN(100_000), i, r.Uint64(), r.IntN(500))
	for len(p) < 199 {
		p = append(p, ' ')
	}
	return append(p, '}')
}

// noise returns a JSON string that cannot be compressed.
func noise(r *rand.Rand, size int) []byte {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	p := make([]byte, size+2)
	for i := range p {
		p[i] = letters[r.IntN(len(letters))]
	}
	p[0], p[len(p)-1] = '"', '"'
	return p
}

func noisePayload(r *rand.Rand, _ int) []byte { return noise(r, 198) }

func newBusy(b testing.TB, depth int, payload func(*rand.Rand, int) []byte) *busy {
	b.Helper()
	q := &busy{
		b: b, m: fsm.New(), payload: payload, r: rand.New(rand.NewPCG(1, 2)), now: 1_700_000_000_000,
		bucket: newDrain(), unflushed: NewUnflushedLog(64 << 20),
	}
	s := fsm.DefaultSettings()
	s.RetainCompletedCount, s.LeaseMs = 100, 3_600_000
	q.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n1", Address: "n1:8080", Epoch: 1, Cluster: "c", Lineage: "l", Settings: s,
	}}})
	for q.jobs < depth {
		q.apply(q.enqueue(min(1000, depth-q.jobs)))
	}
	return q
}

// acquire acquires the document for the queue.
func (q *busy) acquire(cfg Config) {
	ctx := q.b.Context()
	first, err := First(ctx, cfg, q.bucket, "l", nil, q.m.View(), q.unflushed, false)
	if err != nil {
		q.b.Fatal(err)
	}
	me := election.Candidate{Node: "n1", Address: "n1:8080", Cluster: "c", Lineage: "l", Epoch: 1, LSN: q.m.LSN()}
	if q.fence, err = election.Acquire(ctx, q.bucket, docKey, election.Observed{}, me, first, q.now); err != nil {
		q.b.Fatal(err)
	}
	q.unflushed.Reset(q.m.LSN())
	q.builder = NewDocumentBuilder(cfg, q.bucket, "l", first, q.unflushed, q.m.View, hclog.NewNullLogger())
	q.b.Cleanup(q.builder.Close)
}

func (q *busy) enqueue(n int) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	for range n {
		q.jobs++
		id := fmt.Sprintf("01890a5d-%04x-774b-bcce-%012x", q.jobs&0xffff, q.r.Uint64()>>16)
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: id, Type: "mail", Payload: q.payload(q.r, q.jobs)})
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// apply applies an entry as a node does.
func (q *busy) apply(muts ...*fsmpb.Mutation) []fsm.Result {
	q.now += 5
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: q.now, Mutations: muts, Random: q.r.Uint64()})
	if err != nil {
		q.b.Fatal(err)
	}
	batch, err := fsm.DecodeEntry(data)
	if err != nil {
		q.b.Fatal(err)
	}
	results := q.m.Apply(q.m.LSN().Index+1, 1, batch)
	m := q.m.Meta()
	q.unflushed.Append(archive.Entry{LSN: m.LSN(), At: m.NowMs, Data: data})
	q.written += int64(len(data))
	return results
}

// mutate enqueues, claims and completes the same number of jobs, in entries of several
// mutations each: the load during one flush.
func (q *busy) mutate() {
	for range 10 {
		var muts []*fsmpb.Mutation
		for range 7 {
			muts = append(muts, q.enqueue(1))
		}
		for range 7 {
			muts = append(muts, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{
				Worker: "worker-17", Max: 1, RequestId: fmt.Sprintf("%016x", q.r.Uint64()),
			}}})
		}
		for _, l := range q.held {
			muts = append(muts, &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
				Worker: "worker-17", Lease: l, Result: []byte(`{"sent":true}`),
			}}})
		}
		q.held = q.held[:0]
		for _, res := range q.apply(muts...) {
			for _, j := range res.Jobs {
				if j != nil && j.Status == fsm.InProgress {
					q.held = append(q.held, &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token})
				}
			}
		}
	}
}

// flush writes the changes, as the flusher does.
func (q *busy) flush() {
	for behind := true; behind; {
		var c *document.Content
		var err error
		if c, behind, err = q.builder.Draft(q.b.Context(), q.fence.Viewed()); err != nil {
			q.b.Fatal(err)
		}
		if behind {
			continue
		}
		if err := q.fence.Write(q.b.Context(), c, q.now); err != nil {
			q.b.Fatal(err)
		}
		q.unflushed.Flushed(c.LSN())
		q.unflushed.Trim(q.builder.Wrote(c))
	}
}

// TestSmallestView checks that the smallest bound of the jobs in the document is one, too.
func TestSmallestView(t *testing.T) {
	q := newBusy(t, 100, mailPayload)
	cfg := DefaultConfig()
	cfg.ViewMax = 1
	q.acquire(cfg)
	for range 4 {
		q.mutate()
		q.flush()
		if q.fence.Viewed() {
			t.Fatal("the document shows the jobs")
		}
	}
}

// TestDraftWithoutTheLog checks that a leader whose unflushed log does not reach back has nothing new for the document
// until it has written a checkpoint, and has it as soon as that is written.
func TestDraftWithoutTheLog(t *testing.T) {
	q := newBusy(t, 100, mailPayload)
	q.acquire(DefaultConfig())
	q.mutate()
	q.unflushed.Reset(q.m.LSN())
	woken := make(chan struct{}, 1)
	q.builder.Notify(func() { woken <- struct{}{} })
	before := q.builder.Last()
	if c, behind, err := q.builder.Draft(t.Context(), false); c != before || behind || err != nil {
		t.Fatalf("before the checkpoint: %v, behind %v, %v", c.LSN(), behind, err)
	}
	<-woken
	c, behind, err := q.builder.Draft(t.Context(), false)
	if at := q.m.LSN(); behind || err != nil || c.LSN() != at || c.Archive.Checkpoint.LSN != at {
		t.Fatalf("after the checkpoint: %v, behind %v, %v", c.LSN(), behind, err)
	}
}

// TestMostFlushesAreOneWrite checks that at 1000 jobs per second and one flush per second,
// nine of ten flushes write only the document.
func TestMostFlushesAreOneWrite(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.SaveRequests()
	q := newBusy(t, 100, textPayload)
	q.acquire(cfg)
	const flushes = 120
	several, objects := 0, 0
	for range flushes {
		for range 14 {
			q.mutate()
		}
		q.flush()
		q.builder.wg.Wait()
		if n := q.builder.Objects(); n > 0 {
			several, objects = several+1, objects+n
		}
	}
	t.Logf("%d flushes: %d wrote objects, %d of them; %d bytes of entries; %v", flushes, several, objects, q.written, q.bucket.total())
	if several > flushes/10 {
		t.Errorf("%d of %d flushes wrote more than the document", several, flushes)
	}
}

// TestObjectsAreWaitedFor checks that a queue whose data fits into no document, 1000 jobs of 1 KB
// per second that cannot be compressed, makes at most one write for each interval, although
// each of its checkpoints is several objects.
func TestObjectsAreWaitedFor(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Interval = time.Second
	cfg.SaveRequests()
	q := newBusy(t, 10_000, func(r *rand.Rand, _ int) []byte { return noise(r, 1000) })
	q.acquire(cfg)
	const span, mutations = 30 * time.Second, 14 // 980 jobs per second
	var passed, longest time.Duration
	writes, owed := 0, 0
	for passed < span {
		pause := cfg.spread(cfg.Interval, owed)
		passed, longest = passed+pause, max(longest, pause)
		for range mutations * int(pause/cfg.Interval) {
			q.mutate()
		}
		q.flush()
		q.builder.wg.Wait()
		n := q.builder.Objects()
		owed = owe(owed, cfg.Interval, pause, n)
		writes += 1 + n
	}
	t.Logf("%d writes in %v, the longest pause was %v; %v", writes, passed, longest, q.bucket.total())
	if most := int(passed/cfg.Interval) + owed; writes > most {
		t.Errorf("%d writes in %v, want at most %d", writes, passed, most)
	}
	if owed == owedMax || longest > cfg.Heartbeat {
		t.Errorf("at the end flushes wait for %d objects; the longest pause was %v", owed, longest)
	}
}

// TestObjectEvery compares the planned number of objects with the objects that a load makes
// at the interval of the heartbeat.
func TestObjectEvery(t *testing.T) {
	t.Parallel()
	for _, load := range []struct {
		name  string
		jobs  int // for each flush, in steps of 70
		bytes func(r *rand.Rand, i int) []byte
		slack float64 // planned objects for each that was written, at most
	}{
		{"noise, little", 2, noisePayload, 3}, {"noise, some", 12, noisePayload, 3}, {"text, some", 12, textPayload, 11},
	} {
		t.Run(load.name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.SaveRequests()
			q := newBusy(t, 100, load.bytes)
			q.acquire(cfg)
			const flushes = 80
			objects, before := 0, q.written
			for range flushes {
				for range load.jobs {
					q.mutate()
				}
				q.flush()
				q.builder.wg.Wait()
				objects += q.builder.Objects()
			}
			span := flushes * cfg.Heartbeat
			rate := int64(float64(q.written-before) / span.Seconds())
			planned := float64(span) / float64(cfg.ObjectEvery(rate))
			t.Logf("%d bytes/s, %d bytes a job: %d objects, planned %.1f", rate, (q.written-before)/int64(70*load.jobs*flushes), objects, planned)
			if float64(objects) > planned+3 || planned > load.slack*float64(objects)+3 {
				t.Errorf("%d bytes/s make %d objects, planned are %.1f", rate, objects, planned)
			}
		})
	}
}

// textPayload returns JSON of 130 bytes.
func textPayload(r *rand.Rand, i int) []byte {
	return fmt.Appendf(nil, `{"text":"send mail to customer %5d about order %8d, thumbnail %4d in the warehouse, and update the search index of the region"}`,
		r.IntN(10000), i, r.IntN(1000))
}

// BenchmarkFlush measures flushes of about 210 mutations each, in queues of several depths.
// The cost of a flush must not grow with the depth: among the large queues, none may take
// more than twice the bytes or the time of another. B/mutB is the bytes in the bucket for
// each byte of the mutations, and must be 4 at most.
//
//	go test ./cluster/flush -run '^$' -bench Flush -benchtime 2000x
//
// A checkpoint counts in proportion to the log that makes it due, and not when it is
// written, because a deep queue needs tens of thousands of flushes for one checkpoint.
func BenchmarkFlush(b *testing.B) {
	for _, kind := range []struct {
		name    string
		payload func(*rand.Rand, int) []byte
	}{{"mail", mailPayload}, {"noise", noisePayload}} {
		for _, depth := range []int{100, 1000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/jobs=%d", kind.name, depth), func(b *testing.B) {
				if testing.Short() && depth > 100_000 {
					b.Skip("it takes a while to make")
				}
				benchFlush(b, newBusy(b, depth, kind.payload))
			})
		}
	}
}

func benchFlush(b *testing.B, q *busy) {
	q.acquire(DefaultConfig())
	q.mutate()
	q.flush() // the first one may wait for a checkpoint
	q.builder.wg.Wait()
	q.mutate()
	q.flush()
	before, mutated, allocs := q.bucket.total(), q.written, uint64(0)
	var took time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		q.mutate()
		a := mallocs()
		b.StartTimer()
		begin := time.Now()
		q.flush()
		took += time.Since(begin)
		b.StopTimer()
		allocs += mallocs() - a
		b.StartTimer()
		n++
	}
	after := q.bucket.total()
	mutated = q.written - mutated
	log, root := after["log"]-before["log"], after[docKey]-before[docKey]
	cfg, checkpoint := DefaultConfig(), float64(0)
	if a := q.builder.Last().Archive; a != nil {
		checkpoint = float64(log) * float64(a.Checkpoint.Stored) / float64(max(a.Checkpoint.Stored, cfg.CheckpointMin))
	}
	all := float64(log+root) + checkpoint
	b.ReportMetric(all/float64(mutated), "B/mutB")
	b.ReportMetric(float64(root)/float64(mutated), "rootB/mutB")
	b.ReportMetric(float64(log)/float64(mutated), "logB/mutB")
	b.ReportMetric(checkpoint/float64(mutated), "baseB/mutB")
	b.ReportMetric(float64(mutated)/float64(n), "mutB/flush")
	b.ReportMetric(all/float64(n), "B/flush")
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/flush")
	b.ReportMetric(float64(allocs)/float64(n), "allocs/flush")
	b.ReportMetric(0, "ns/op")
}

func mallocs() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.Mallocs
}
