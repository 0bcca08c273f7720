package fsm_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// depths are the queue lengths that the figures are compared at: nothing may
// cost more for waiting jobs than the deeper tree.
var depths = []int{1_000, 1_000_000}

// benchPayload is a job's payload of ordinary size.
var benchPayload = bytes.Repeat([]byte("x"), 200)

// benchID looks like a UUIDv7: jobs made one after the other share a prefix.
func benchID(i int) string { return fmt.Sprintf("0193c0de-%04x-7000-8000-%012x", i>>16, i) }

// filled returns a machine with n available jobs. It makes each machine once: a benchmark
// puts back the jobs that it takes out, or adds few. The garbage of making it is
// collected here, not while the benchmark runs.
func filled(b *testing.B, n int) *fsm.Machine {
	b.Helper()
	m := fsm.New()
	const perEntry = 1000
	for at := 0; at < n; at += perEntry {
		m.Apply(uint64(at/perEntry+1), 1, jobsEntry(b, at, min(perEntry, n-at)))
	}
	runtime.GC()
	return m
}

// jobsEntry is a decoded entry with n new jobs, the first with number from.
func jobsEntry(b *testing.B, from, n int) *fsmpb.Batch {
	b.Helper()
	op := &fsmpb.Enqueue{}
	for i := range n {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: benchID(from + i), Type: "bench", Payload: benchPayload})
	}
	return decoded(b, &fsmpb.Batch{NowMs: 1, Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}}})
}

func decoded(b *testing.B, batch *fsmpb.Batch) *fsmpb.Batch {
	b.Helper()
	data, err := fsm.EncodeEntry(batch)
	if err != nil {
		b.Fatal(err)
	}
	back, err := fsm.DecodeEntry(data)
	if err != nil {
		b.Fatal(err)
	}
	return back
}

// BenchmarkEnqueue is Apply of one entry that enqueues so many jobs; ns/job is
// the figure to compare.
func BenchmarkEnqueue(b *testing.B) {
	for _, depth := range depths {
		for _, per := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("depth=%d/jobs=%d", depth, per), func(b *testing.B) {
				e := enqueuer{m: filled(b, depth), depth: depth, next: depth}
				b.ReportAllocs()
				for b.Loop() {
					if len(e.entries) == 0 {
						b.StopTimer()
						e.refill(b, per)
						b.StartTimer()
					}
					e.apply()
				}
				perJob(b, per)
			})
		}
	}
}

// enqueuer has entries made in advance, and keeps a shallow queue shallow.
type enqueuer struct {
	m       *fsm.Machine
	depth   int
	next    int
	index   uint64
	entries []*fsmpb.Batch
}

func (e *enqueuer) refill(b *testing.B, per int) {
	if e.depth <= 1000 {
		e.m = filled(b, e.depth)
	}
	for range 1 + 1000/per {
		e.entries = append(e.entries, jobsEntry(b, e.next, per))
		e.next += per
	}
}

func (e *enqueuer) apply() {
	last := len(e.entries) - 1
	e.index++
	e.m.Apply(1<<20+e.index, 1, e.entries[last])
	e.entries = e.entries[:last]
}

// BenchmarkLifecycle claims a job, completes it and enqueues another, in one
// entry each, as a busy queue of constant depth does. Its worker names its claims, as all
// clients do, and has as many remembered claims as a worker may have.
func BenchmarkLifecycle(b *testing.B) {
	for _, depth := range depths {
		for _, types := range [][]string{nil, {"bench"}} {
			b.Run(fmt.Sprintf("depth=%d/types=%d", depth, len(types)), func(b *testing.B) {
				m := filled(b, depth)
				next, index := depth, uint64(depth)
				b.ReportAllocs()
				for b.Loop() {
					index += 3
					mine := claim("w", 1, types...)
					mine.GetClaim().RequestId = benchID(next)
					got := m.Apply(index, 1, one(mine))
					j := got[0].Jobs[0]
					if r := m.Apply(index+1, 1, one(complete("w", j.ID, j.Execution().Token))); r[0].Code != fsm.OK {
						b.Fatal(r[0].Code)
					}
					m.Apply(index+2, 1, one(enqueueType("bench", benchID(next))))
					next++
				}
			})
		}
	}
}

// BenchmarkFigures is BenchmarkLifecycle, and one with a View after each entry, after which the
// figures are copied.
func BenchmarkFigures(b *testing.B) {
	for _, viewed := range []bool{false, true} {
		b.Run(fmt.Sprintf("viewed=%v", viewed), func(b *testing.B) { countedLifecycle(b, viewed) })
	}
}

func countedLifecycle(b *testing.B, viewed bool) {
	const depth = 1000
	m := filled(b, depth)
	next, index := depth, uint64(depth)
	b.ReportAllocs()
	for b.Loop() {
		index += 3
		j := m.Apply(index, 1, one(claim("w", 1)))[0].Jobs[0]
		m.Apply(index+1, 1, one(complete("w", j.ID, j.Execution().Token)))
		m.Apply(index+2, 1, one(enqueueType("bench", benchID(next))))
		next++
		if viewed {
			m.View()
		}
	}
}

func one(mut *fsmpb.Mutation) *fsmpb.Batch {
	return &fsmpb.Batch{NowMs: 1, Mutations: []*fsmpb.Mutation{mut}}
}

// BenchmarkHeartbeat renews a hundred leases in one entry.
func BenchmarkHeartbeat(b *testing.B) {
	for _, depth := range depths {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			m := filled(b, depth)
			beat := &fsmpb.Heartbeat{Worker: "w"}
			for _, j := range m.Apply(1<<20, 1, one(claim("w", 100)))[0].Jobs {
				beat.Leases = append(beat.Leases, &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token})
			}
			entry := one(&fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: beat}})
			index := uint64(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				index++
				entry.NowMs++
				m.Apply(index, 1, entry)
			}
			perJob(b, 100)
		})
	}
}

// BenchmarkTakeover registers a new broker while so many leases stand: after a
// gap in which none of them came up, and after one in which all did.
func BenchmarkTakeover(b *testing.B) {
	for _, leases := range []int{1_000, 100_000} {
		for name, gapMs := range map[string]int64{"short": 0, "long": 600_000} {
			b.Run(fmt.Sprintf("leases=%d/gap=%s", leases, name), func(b *testing.B) {
				m := filled(b, leases)
				for m.Ready(nil) {
					m.Apply(1<<20, 1, one(claim("w", 1000)))
				}
				index, epoch := uint64(1<<20), uint64(0)
				b.ReportAllocs()
				for b.Loop() {
					index, epoch = index+1, epoch+1
					entry := one(registerBroker("n", epoch, fsm.DefaultSettings()))
					entry.NowMs = m.Meta().Now + gapMs
					m.Apply(index, 1, entry)
				}
				if got := m.Counts().Of(fsm.InProgress); got != leases {
					b.Fatalf("%d of %d leases stand", got, leases)
				}
			})
		}
	}
}

// BenchmarkView freezes the state and makes the one change after it that pays
// for the copy.
func BenchmarkView(b *testing.B) {
	for _, depth := range depths {
		m := filled(b, depth)
		b.Run(fmt.Sprintf("depth=%d/freeze", depth), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.View()
			}
		})
		b.Run(fmt.Sprintf("depth=%d/freeze+claim+release", depth), func(b *testing.B) {
			index := uint64(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				m.View()
				index += 2
				j := m.Apply(index, 1, one(claim("w", 1)))[0].Jobs[0]
				m.Apply(index+1, 1, one(release("w", j.ID, j.Execution().Token)))
			}
		})
	}
}

var hundredThousand = sync.OnceValues(func() (*fsm.View, []byte) {
	var b testing.B
	v := filled(&b, 100_000).View()
	var buf bytes.Buffer
	_ = v.Encode(&buf) // a Buffer takes everything
	return v, buf.Bytes()
})

func BenchmarkSnapshotEncode(b *testing.B) {
	v, data := hundredThousand()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Encode(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	perJob(b, 100_000)
}

func BenchmarkSnapshotSize(b *testing.B) {
	v, _ := hundredThousand()
	for b.Loop() {
		v.EncodedSize()
	}
	perJob(b, 100_000)
}

func BenchmarkSnapshotDecode(b *testing.B) {
	_, data := hundredThousand()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fsm.Decode(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
	perJob(b, 100_000)
}

func BenchmarkEntry(b *testing.B) {
	for _, per := range []int{1, 100, 1000} {
		batch := jobsEntry(b, 0, per)
		data, _ := fsm.EncodeEntry(batch)
		b.Run(fmt.Sprintf("encode/jobs=%d", per), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = fsm.EncodeEntry(batch)
			}
			perJob(b, per)
		})
		b.Run(fmt.Sprintf("decode/jobs=%d", per), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = fsm.DecodeEntry(data)
			}
			perJob(b, per)
		})
	}
}

func perJob(b *testing.B, jobs int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*jobs), "ns/job")
}
