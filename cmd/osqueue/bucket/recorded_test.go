package bucket

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/file"
)

const recordedLineage = "5f0c9c7e-0d3c-4a53-9a52-1f0b8c0a8e11"

// recorded is a bucket that a leader has written, with its history, in a
// directory.
type recorded struct {
	t      testing.TB
	dir    string
	bucket storage.Bucket
	m      *fsm.Machine
	now    int64
	arc    document.Archive
	tail   *archive.Tail
	next   time.Duration // broker timeout in the next document
}

// begunAt is the time of the first entry: long ago, so that the text of ages does
// not depend on the moment.
var begunAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newRecorded begins with a checkpoint at the first entry.
func newRecorded(t testing.TB) *recorded {
	t.Helper()
	r := &recorded{t: t, dir: filepath.Join(t.TempDir(), "bucket"), m: fsm.New(), now: begunAt.UnixMilli()}
	var err error
	if r.bucket, err = file.OpenDir(t.Context(), r.dir); err != nil {
		t.Fatal(err)
	}
	r.tail = archive.NewTail(fsm.LSN{})
	r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n1", Address: "127.0.0.1:1", Epoch: 1, Cluster: "c1", Lineage: recordedLineage,
	}}})
	r.checkpoint(fsm.LSN{})
	return r
}

func (r *recorded) url() string { return "file://" + r.dir }

func (r *recorded) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *recorded) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *recorded) lsn() fsm.LSN { return r.m.LSN() }

// apply applies an entry, a second after the one before.
func (r *recorded) apply(muts ...*fsmpb.Mutation) []fsm.Result {
	r.t.Helper()
	r.now += 1000
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: r.now, Mutations: muts})
	r.check(err)
	batch, err := fsm.DecodeEntry(data)
	r.check(err)
	results := r.m.Apply(r.lsn().Index+1, 2, batch)
	r.check(r.tail.Append(archive.Entry{LSN: r.lsn(), At: r.m.Now(), Data: data}))
	for _, res := range results {
		r.check(res.Code.Err())
	}
	return results
}

func (r *recorded) enqueue(kind string, ids ...string) {
	r.t.Helper()
	op := &fsmpb.Enqueue{}
	for _, id := range ids {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: id, Type: kind, Payload: []byte(`{"n":1}`), Options: &fsmpb.Options{Tags: []string{"t-" + id}}})
	}
	r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
}

// claim has a worker take a job of a type.
func (r *recorded) claim(kind string) *fsm.Job {
	r.t.Helper()
	op := &fsmpb.Claim{Worker: "w1", Types: []string{kind}, Max: 1}
	jobs := r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: op}})[0].Jobs
	if len(jobs) != 1 {
		r.t.Fatalf("%d jobs of type %s", len(jobs), kind)
	}
	return jobs[0]
}

func (r *recorded) complete(j *fsm.Job) {
	r.t.Helper()
	op := &fsmpb.Complete{Worker: "w1", Lease: &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token}, Result: []byte("42")}
	r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: op}})
}

func (r *recorded) fail(j *fsm.Job) {
	r.t.Helper()
	op := &fsmpb.Fail{Worker: "w1", Lease: &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token}, Error: "out of paper"}
	r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: op}})
}

// cut makes a segment of the tail.
func (r *recorded) cut() (key string) {
	r.t.Helper()
	ref, object := archive.Segment(recordedLineage, r.tail.Frame())
	r.check(archive.Put(r.ctx(), r.bucket, ref.Key, object))
	r.arc.Log = append(r.arc.Log, ref)
	r.tail = archive.NewTail(ref.Last)
	return ref.Key
}

// checkpoint writes a checkpoint, and forgets what the tail has: prev says from where on.
func (r *recorded) checkpoint(prev fsm.LSN) {
	r.t.Helper()
	written, err := archive.WriteCheckpoint(r.ctx(), r.bucket, recordedLineage, prev, r.m.View())
	r.check(err)
	r.arc = document.Archive{Checkpoint: written}
	r.tail = archive.NewTail(written.LSN)
}

// flush writes the document, as of that heartbeat.
func (r *recorded) flush(bare bool, heartbeat time.Time) {
	r.t.Helper()
	v := r.m.View()
	c := &document.Content{Archive: new(r.arc), Meta: v.Meta(), Counts: v.Counts()}
	c.Archive.Tail = r.tail.Frame()
	if !bare {
		c.Jobs, c.ViewMax = v, document.ViewMax
	}
	r.check(c.Check())
	id := rand.Text()
	r.put(document.Encode(c, document.Header{
		Lineage: recordedLineage, Cluster: "c1", Epoch: 1, Node: "n1", Write: id, Writes: []string{id},
		Fence: document.Fence{Timeout: r.next},
	}, "127.0.0.1:1", heartbeat.UnixMilli()))
}

// put writes the document.
func (r *recorded) put(data []byte) {
	r.t.Helper()
	o, err := r.bucket.Get(r.ctx(), cluster.DocumentKey)
	var w storage.Write
	if err != nil {
		w = r.bucket.PutIfAbsent(r.ctx(), cluster.DocumentKey, data)
	} else {
		w = r.bucket.PutIfMatch(r.ctx(), cluster.DocumentKey, data, o.Version)
	}
	if w.Outcome != storage.Committed {
		r.t.Fatalf("%+v", w)
	}
}

// story is an hour of a queue. At 2-7 one of three letters is done, and the rest
// waits. By 2-12 the second one has failed once, the words are counted, and there
// are two jobs of a new type.
func story(t testing.TB, bare bool) *recorded {
	t.Helper()
	r := newRecorded(t)
	r.enqueue("mail", "m1", "m2", "m3") // 2-2
	r.enqueue("wc", "w1")               // 2-3
	r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: "night", Spec: "0 3 * * *", NextMs: r.now + 3600_000, Job: &fsmpb.NewJob{Type: "report"},
	}}}, &fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: &fsmpb.Token{
		Id: "k1", Hash: make([]byte, sha256.Size), Name: "mailer", Role: uint32(fsm.RoleProducer), Types: []string{"mail"}, MaxJobs: 5,
	}}}}) // 2-4
	r.cut()
	r.complete(r.claim("mail")) // 2-5, 2-6
	r.apply()                   // 2-7
	r.cut()
	j := r.claim("mail")      // 2-8
	r.fail(j)                 // 2-9
	r.complete(r.claim("wc")) // 2-10, 2-11
	r.enqueue("new", "n1", "n2")
	r.flush(bare, begunAt.Add(time.Hour))
	if r.lsn() != (fsm.LSN{Term: 2, Index: 12}) {
		t.Fatalf("the story ends at %s", r.lsn())
	}
	return r
}

// gapped is a story with a hole between 2-12 and 2-15.
func gapped(t testing.TB) *recorded {
	t.Helper()
	r := story(t, true)
	at := r.lsn()
	r.cut()
	for i := range 3 {
		r.enqueue("late", fmt.Sprint("l", i))
	}
	r.checkpoint(at)
	r.enqueue("late", "l9")
	r.flush(true, begunAt.Add(2*time.Hour))
	return r
}
