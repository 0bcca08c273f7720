package fsm_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// depths are the queue lengths that the figures are compared at: an operation may take at most
// twice as long in the deeper queue, and a job at most 700 bytes with a payload of 200.
var depths = []int{1_000, 1_000_000}

// benchPayload is a job's payload of ordinary size.
var benchPayload = bytes.Repeat([]byte("x"), 200)

// benchID looks like a UUIDv7: jobs made one after the other share a prefix.
func benchID(i int) string { return fmt.Sprintf("0193c0de-%04x-7000-8000-%012x", i>>16, i) }

// typeOf, groupOf and tagOf spread the jobs of a mixed queue.
func typeOf(i int) string  { return fmt.Sprintf("type-%03d", i%1000) }
func groupOf(i int) string { return fmt.Sprintf("group-%04d", i%10_000) }
func tagOf(i int) string   { return fmt.Sprintf("tag-%d", i%10) }

func one(mut *fsmpb.Mutation) *fsmpb.Batch {
	return &fsmpb.Batch{NowMs: 1, Mutations: []*fsmpb.Mutation{mut}}
}

func perJob(b *testing.B, jobs int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*jobs), "ns/job")
}

// world is a machine with waiting jobs. Its settings keep a thousand completed jobs, with attempts
// and leases that do not end.
type world struct {
	m      *fsm.Machine
	index  uint64
	made   int // jobs; also the number of the next one
	newJob func(i int) *fsmpb.NewJob
	lease  *fsm.Job // of a job that runs all the time
	fired  int
}

func plainJob(i int) *fsmpb.NewJob {
	return &fsmpb.NewJob{Id: benchID(i), Type: "bench", Payload: benchPayload}
}

// mixedJob is of one of 1000 types, or of a type with 10 000 groups, and has a tag.
func mixedJob(i int) *fsmpb.NewJob {
	n := &fsmpb.NewJob{Id: benchID(i), Type: typeOf(i), Payload: benchPayload, Options: &fsmpb.Options{Tags: []string{tagOf(i)}}}
	if i%2 == 0 {
		n.Type, n.Optional().Group = "grouped", groupOf(i/2)
	}
	return n
}

// newWorld fills a machine, and returns how many bytes each job takes.
func newWorld(newJob func(i int) *fsmpb.NewJob, jobs int) (w *world, bytesPerJob float64) {
	w = &world{m: fsm.New(), newJob: newJob}
	s := fsm.DefaultSettings()
	s.MaxAttempts, s.LeaseMs, s.RetainCompletedCount = 1<<30, 1<<40, 1000
	w.do(registerBroker("n", 1, s))
	w.do(enqueueType("leased", "leased"))
	w.lease = w.do(claim("busy", 1, "leased"))[0].Jobs[0]
	w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{Name: "c", NextMs: 1 << 40, Job: newJob(0)}}})
	before := heapInUse()
	for left := jobs; left > 0; left -= 1000 {
		w.enqueue(min(1000, left))
	}
	return w, float64(heapInUse()-before) / float64(jobs)
}

// heapInUse is the memory that is reachable now.
func heapInUse() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// do applies a mutation in an entry of its own.
func (w *world) do(mut *fsmpb.Mutation) []fsm.Result {
	w.index++
	return w.m.Apply(w.index, 1, one(mut))
}

func (w *world) enqueue(n int, with ...func(*fsmpb.NewJob)) []*fsm.Job {
	op := &fsmpb.Enqueue{}
	for range n {
		job := w.newJob(w.made)
		for _, fn := range with {
			fn(job)
		}
		op.Jobs = append(op.Jobs, job)
		w.made++
	}
	return w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})[0].Jobs
}

func (w *world) claim(types ...string) *fsm.Job {
	m := claim("w", 1, types...)
	m.GetClaim().RequestId = benchID(int(w.index)) // as all clients do
	return w.do(m)[0].Jobs[0]
}

// remove deletes jobs.
func (w *world) remove(jobs ...*fsm.Job) {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	w.do(changeOf(fsm.DeleteJobs, ids...))
}

// replace deletes a job and enqueues another one.
func (w *world) replace(j *fsm.Job) {
	w.remove(j)
	w.enqueue(1)
}

var waitingStatuses = []fsm.Status{fsm.Blocked, fsm.Scheduled, fsm.Unclaimed}

// list reads a page of a hundred jobs from the middle of the queue.
func (w *world) list(of fsm.Index) {
	left := 100
	w.m.View().List(of, waitingStatuses, uint64(w.made/2), func(*fsm.Job) bool { left--; return left > 0 })
}

// worldOps leave as many waiting jobs behind as there were.
var worldOps = []struct {
	name string
	run  func(w *world)
}{
	{"enqueue+delete", func(w *world) { w.remove(w.enqueue(1)...) }},
	{"enqueue+delete-100", func(w *world) { w.remove(w.enqueue(100)...) }},
	{"enqueue+delete-unique", func(w *world) {
		w.remove(w.enqueue(1, func(n *fsmpb.NewJob) { n.Optional().Unique = &fsmpb.Unique{Key: n.Id, Scope: uint32(fsm.UniqueActive)} })...)
	}},
	{"claim+complete+enqueue", func(w *world) {
		j := w.claim()
		w.do(complete("w", j.ID, j.Execution().Token))
		w.enqueue(1)
	}},
	{"claim+release", func(w *world) {
		j := w.claim("bench", "grouped", typeOf(11), typeOf(33), typeOf(55), typeOf(77), typeOf(99), typeOf(111), typeOf(333), typeOf(555))
		w.do(release("w", j.ID, j.Execution().Token))
	}},
	{"claim+fail+replace", func(w *world) {
		w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "bench", Backoff: &fsmpb.Backoff{
			Kind: uint32(backoff.Exponential), BaseMs: 1 << 30, JitterPercent: 20,
		}}}})
		j := w.claim()
		w.do(fail("w", j.ID, j.Execution().Token, "the other end hung up", false))
		w.replace(j)
	}},
	{"cancel+replace", func(w *world) {
		j := w.m.Job(benchID(w.made - 1))
		w.do(changeOf(fsm.CancelJobs, j.ID))
		w.replace(j)
	}},
	{"heartbeat", func(w *world) { w.do(heartbeat("busy", w.lease.ID, w.lease.Execution().Token)) }},
	{"fire+delete", func(w *world) {
		due := int64(1<<40 + w.fired)
		w.fired++
		w.remove(w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
			Name: "c", DueMs: due, AtMs: 1, NextMs: due + 1, JobId: "cron",
		}}})[0].Jobs...)
	}},
	{"list-type", func(w *world) { w.list(fsm.Index{Type: new(w.newJob(0).Type)}) }},
	{"list-tag", func(w *world) { w.list(fsm.Index{Tag: tagOf(0)}) }},
	{"view", func(w *world) { w.m.View() }},
	{"view+enqueue+delete", func(w *world) { w.m.View(); w.remove(w.enqueue(1)...) }}, // pays for the copies
}

// BenchmarkDepth measures operations in queues of several depths. In a plain queue all jobs have one
// type and no options.
func BenchmarkDepth(b *testing.B) {
	for name, newJob := range map[string]func(int) *fsmpb.NewJob{"plain": plainJob, "mixed": mixedJob} {
		for _, depth := range depths {
			b.Run(fmt.Sprintf("%s/depth=%d", name, depth), func(b *testing.B) {
				w, bytesPerJob := newWorld(newJob, depth)
				for _, op := range worldOps {
					b.Run(op.name, func(b *testing.B) {
						b.ReportAllocs()
						for b.Loop() {
							op.run(w)
						}
						b.ReportMetric(bytesPerJob, "B/job")
					})
				}
			})
		}
	}
}

// BenchmarkTakeover registers a new broker while so many leases stand: after a
// gap in which none of them came up, and after one in which all did.
func BenchmarkTakeover(b *testing.B) {
	for _, leases := range []int{1_000, 100_000} {
		for name, gapMs := range map[string]int64{"short": 0, "long": 600_000} {
			b.Run(fmt.Sprintf("leases=%d/gap=%s", leases, name), func(b *testing.B) {
				w, _ := newWorld(plainJob, leases)
				for w.m.Ready(nil) {
					w.do(claim("w", 1000))
				}
				epoch := uint64(1)
				b.ReportAllocs()
				for b.Loop() {
					epoch++
					entry := one(registerBroker("n", epoch, fsm.DefaultSettings()))
					entry.NowMs = w.m.Now() + gapMs
					w.m.Apply(1<<20+epoch, 1, entry)
				}
				if got := w.m.Counts().Of(fsm.InProgress); got != leases+1 {
					b.Fatalf("%d of %d leases stand", got, leases+1)
				}
			})
		}
	}
}

var hundredThousand = sync.OnceValues(func() (*fsm.View, []byte) {
	w, _ := newWorld(plainJob, 100_000)
	v := w.m.View()
	var buf bytes.Buffer
	_ = v.Encode(&buf) // a Buffer takes everything
	return v, buf.Bytes()
})

// BenchmarkSnapshot measures what is done with the state of 100 000 jobs, without a lock.
func BenchmarkSnapshot(b *testing.B) {
	v, data := hundredThousand()
	for name, run := range map[string]func() error{
		"encode": func() error { return v.Encode(io.Discard) },
		"size":   func() error { v.EncodedSize(); return nil },
		"sum":    func() error { v.Sum(); return nil },
		"decode": func() error { _, err := fsm.Decode(bytes.NewReader(data)); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
			perJob(b, 100_000)
		})
	}
}

func BenchmarkEntry(b *testing.B) {
	for _, per := range []int{1, 100, 1000} {
		op := &fsmpb.Enqueue{}
		for i := range per {
			op.Jobs = append(op.Jobs, plainJob(i))
		}
		batch := one(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
		data, _ := fsm.EncodeEntry(batch)
		for name, run := range map[string]func(){
			"encode": func() { _, _ = fsm.EncodeEntry(batch) },
			"decode": func() { _, _ = fsm.DecodeEntry(data) },
		} {
			b.Run(fmt.Sprintf("%s/jobs=%d", name, per), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					run()
				}
				perJob(b, per)
			})
		}
	}
}

// BenchmarkLimits measures claims beside keys without room, and beside jobs that are parked under one.
func BenchmarkLimits(b *testing.B) {
	scale := 1
	if testing.Short() {
		scale = 100
	}
	keyed := func(keys int) func(int) *fsmpb.NewJob {
		return func(i int) *fsmpb.NewJob {
			n := plainJob(i)
			n.Optional().Limits = []string{fmt.Sprint("key-", i%keys)}
			return n
		}
	}
	for _, c := range []struct {
		name       string
		jobs, keys int
	}{{"full-keys", 200_000 / scale, 100_000 / scale}, {"parked-jobs", 1_000_000 / scale, 1}} {
		b.Run(fmt.Sprintf("%s/jobs=%d/keys=%d", c.name, c.jobs, c.keys), func(b *testing.B) {
			w, bytesPerJob := newWorld(keyed(c.keys), c.jobs)
			w.do(setLimit("*", &fsmpb.LimitRule{Running: 1}))
			var last *fsm.Job
			for w.m.Ready(nil) { // one job of each key runs, and the others are parked
				if jobs := w.do(claim("w", 1000))[0].Jobs; len(jobs) > 0 {
					last = jobs[len(jobs)-1]
				}
			}
			for name, run := range map[string]func(){
				"claim-nothing": func() { w.do(claim("w", 1, "bench")) },
				"enqueue+claim+complete-plain": func() {
					id := benchID(w.made)
					w.made++
					w.do(enqueueType("bench", id))
					w.do(complete("w", w.claim("bench").ID, 0))
				},
				"complete+claim": func() {
					w.do(complete("w", last.ID, 0))
					w.enqueue(1, func(n *fsmpb.NewJob) { n.Optional().Limits = last.Options().Limits })
					last = w.claim("bench")
				},
			} {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						run()
					}
					b.ReportMetric(bytesPerJob, "B/job")
				})
			}
		})
	}
}
