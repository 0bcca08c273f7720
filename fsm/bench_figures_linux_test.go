package fsm_test

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// BenchmarkFiguresInTurns compares the processor time of lifecycles with figures and without, in
// turns of a few milliseconds in one process. overhead-% is that of Apply, the median over the
// turns. The levels 10 and 11 differ in nothing else that a lifecycle uses.
func BenchmarkFiguresInTurns(b *testing.B) {
	for _, types := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("types=%d", types), func(b *testing.B) {
			off, on := newCycle(types, fsm.Level10), newCycle(types, fsm.Level11)
			var ratios []float64
			var spent [2]time.Duration
			turn := 0
			for b.Loop() {
				order := []int{turn % 2, 1 - turn%2}
				var took [2]time.Duration
				for _, i := range order {
					took[i] = []*cycle{off, on}[i].turn()
					spent[i] += took[i]
				}
				ratios = append(ratios, float64(took[1])/float64(took[0]))
				turn++
			}
			slices.Sort(ratios)
			each := float64(turn * perTurn)
			b.ReportMetric(float64(spent[0].Nanoseconds())/each, "ns-off")
			b.ReportMetric(float64(spent[1].Nanoseconds())/each, "ns-on")
			b.ReportMetric(100*(ratios[len(ratios)/2]-1), "overhead-%")
		})
	}
}

// perTurn is the number of lifecycles in one turn.
const perTurn = 1000

// cycle is a queue of constant depth over a number of types.
type cycle struct {
	m     *fsm.Machine
	types []string
	next  int
	index uint64
}

func newCycle(types int, level uint32) *cycle {
	c := &cycle{m: fsm.New()}
	for i := range types {
		c.types = append(c.types, fmt.Sprintf("type-%05d", i))
	}
	c.apply(raiseLevel(level))
	for range 10_000 {
		c.enqueue()
	}
	runtime.GC()
	return c
}

func (c *cycle) apply(m *fsmpb.Mutation) fsm.Result {
	c.index++
	return c.m.Apply(c.index, 1, one(m))[0]
}

func (c *cycle) enqueue() {
	c.apply(enqueueType(c.types[c.next%len(c.types)], benchID(c.next)))
	c.next++
}

// turn runs lifecycles and returns their processor time.
func (c *cycle) turn() time.Duration {
	began := processorTime()
	for range perTurn {
		j := c.apply(claim("w", 1)).Jobs[0]
		c.apply(complete("w", j.ID, j.Execution().Token))
		c.enqueue()
	}
	return processorTime() - began
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
