package fsm_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// BenchmarkDepth measures one mutation of each kind, alone in its entry, with 1 000,
// 100 000 and 1 000 000 available jobs. It prints a table: ns at each depth; the ratio of
// the deepest to the shallowest, which should be at most 2; and the bytes of memory per
// job, which should be at most 700 with a payload of 200.
//
//	go test ./fsm -run '^$' -bench Depth -benchtime 20000x
//
// In a "plain" queue all jobs have one type and no options. In a "mixed" queue half of
// them have 1 000 types, the others one type with 10 000 groups; all have tags, 100 000
// more jobs run, and there are 100 000 schedules.
//
// The garbage collector does not run while time is measured: its work depends on the
// allocations, which do not grow with the depth, but it would run at random moments. The
// table has the median of parts of 200 mutations, so that other load of the computer
// hardly counts.
func BenchmarkDepth(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the worlds are made faster so
	for _, shape := range []struct {
		name string
		make func(b *testing.B, jobs int) *world
		ops  []operation
	}{
		{"plain", plainWorld, plainOps},
		{"mixed", mixedWorld, mixedOps},
	} {
		b.Run(shape.name, func(b *testing.B) {
			var worlds []*world
			for _, depth := range tableDepths {
				worlds = append(worlds, shape.make(b, depth.jobs))
			}
			b.Run("memory", func(b *testing.B) { reportMemory(b, worlds) })
			for _, op := range shape.ops {
				b.Run(op.name, func(b *testing.B) { reportDepths(b, worlds, op) })
			}
		})
	}
}

var tableDepths = []struct {
	name string
	jobs int
}{{"10^3", 1_000}, {"10^5", 100_000}, {"10^6", 1_000_000}}

// reportDepths prints a line of the table.
func reportDepths(b *testing.B, worlds []*world, op operation) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var ns []float64
	for i, w := range worlds {
		var parts []float64
		const part = 200 // so that a shallow queue stays what it is
		for left := b.N; left > 0; left -= part {
			n := min(part, left)
			parts = append(parts, float64(op.run(b, w, n).Nanoseconds())/float64(n))
		}
		slices.Sort(parts)
		ns = append(ns, parts[len(parts)/2])
		b.ReportMetric(ns[i], "ns@"+tableDepths[i].name)
	}
	b.ReportMetric(ns[len(ns)-1]/ns[0], "ratio")
	b.ReportMetric(0, "ns/op") // it would be the sum of all
}

// reportMemory prints what a job takes, as measured when the worlds were made.
func reportMemory(b *testing.B, worlds []*world) {
	for i, w := range worlds {
		b.ReportMetric(w.bytesPerJob, "B/job@"+tableDepths[i].name)
	}
	b.ReportMetric(0, "ns/op")
}

// heapInUse is the memory that is reachable now.
func heapInUse() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// typeOf and groupOf spread the jobs of a mixed queue.
func typeOf(i int) string   { return fmt.Sprintf("type-%03d", i%1000) }
func groupOf(i int) string  { return fmt.Sprintf("group-%04d", i%10_000) }
func tagOf(i int) string    { return fmt.Sprintf("tag-%d", i%10) }
func cronName(i int) string { return fmt.Sprintf("schedule-%05d", i%100_000) }
