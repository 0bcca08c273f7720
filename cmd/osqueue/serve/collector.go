package serve

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"osqueue/internal/sleep"
)

// collector adapts Go's garbage collector to a memory target.
//
// With GOGC=100 the collector runs dozens of times a second for a heap of 20 MB under load.
// So the heap may grow to the target first, whatever is in use; above the target it may double.
// Bytes of bodies and answers in flight take the place of garbage, as far as leastGrowth is left:
// a client can make them many, and the collector need not look into them. GOGC is set after each collection, because the next one
// must not come too late when the heap in use has grown many times over. It can still be late: the
// runtime reports a collection to the program some time after its end. The memory limit of the
// runtime bounds what is allocated until then.
//
// When the node is idle, the collector releases the garbage of the last load to the system.
type collector struct {
	target   int64        // bytes of heap up to which it runs rarely
	inflight func() int64 // bytes of bodies and answers that are in use
	tune     bool         // GOGC and GOMEMLIMIT are not set by the environment

	mu      sync.Mutex
	percent int  // GOGC in force
	ended   bool // no GOGC is to be set any more

	seen     int64 // bytes allocated so far, at the last look
	quiet    int   // looks in a row without a load
	released int64 // bytes allocated so far, when memory was last released
}

const (
	// defaultMemoryTarget is twice the heap in use of a node with 100 000 small jobs.
	defaultMemoryTarget = 96 << 20

	// collectorLook is the interval at which the collector looks for the end of a load.
	collectorLook = 250 * time.Millisecond
	// quietLooks is the number of looks without a load after which the node is idle.
	quietLooks = 4
	// quietBytes is the allocation between two looks up to which there is no load.
	quietBytes = 1 << 20
	// releaseBytes is the least allocation that is worth giving memory back: it takes a full
	// collection. With a large heap, which takes longer, it is a quarter of the heap in use.
	releaseBytes = 32 << 20

	mostPercent = 800 // GOGC of the smallest heap
	// leastGrowth is the least number of bytes between two collections, unless the target is less.
	leastGrowth = 32 << 20
	// lateBytes may be allocated before a new GOGC is in force.
	lateBytes = 16 << 20
)

func newCollector(target int64, inflight func() int64) *collector {
	return &collector{target: target, inflight: inflight, tune: os.Getenv("GOGC")+os.Getenv("GOMEMLIMIT") == ""}
}

// run looks at the heap until ctx ends.
func (c *collector) run(ctx context.Context) {
	if c.tune {
		c.set()
		c.afterNext()
	}
	for {
		if c.idle(runtimeFigure("/gc/heap/allocs:bytes"), runtimeFigure("/gc/heap/live:bytes")) {
			debug.FreeOSMemory()
		}
		if !sleep.For(ctx, collectorLook) {
			c.mu.Lock()
			c.ended = true
			c.mu.Unlock()
			return
		}
	}
}

// afterNext calls set after each collection: the runtime runs the cleanup of an object that
// nothing refers to when a collection has found it.
func (c *collector) afterNext() {
	runtime.AddCleanup(new(*collector), func(c *collector) {
		if c.set() {
			c.afterNext()
		}
	}, c)
}

// set sets GOGC and the memory limit for the heap in use. It returns false if the collector has
// ended.
func (c *collector) set() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	live, inflight := runtimeFigure("/gc/heap/live:bytes"), c.inflight()
	if p := gcPercent(live, inflight, c.target); p != c.percent {
		c.percent = p
		debug.SetGCPercent(p)
	}
	// The limit counts all that the runtime has. Free memory below the limit is no reason to collect.
	other := runtimeFigure("/memory/classes/total:bytes") - runtimeFigure("/memory/classes/heap/released:bytes") -
		runtimeFigure("/memory/classes/heap/objects:bytes") - runtimeFigure("/memory/classes/heap/free:bytes")
	debug.SetMemoryLimit(other + live + gcGrowth(live, inflight, c.target) + lateBytes)
	return true
}

// runtimeFigure returns a figure of the runtime.
func runtimeFigure(name string) int64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// idle reports whether memory is to be released: once after each load. live is the heap in use.
func (c *collector) idle(allocated, live int64) bool {
	since := allocated - c.seen
	c.seen = allocated
	if since > quietBytes {
		c.quiet = 0
		return false
	}
	c.quiet++
	if c.quiet < quietLooks || allocated-c.released < max(releaseBytes, live/4) {
		return false
	}
	c.released = allocated
	return true
}

// gcPercent returns the value of GOGC for a heap of live bytes, of which some are in flight. It is
// a multiple of 10: changing it stops the program for a moment.
func gcPercent(live, inflight, target int64) int {
	return int(min(max(100*gcGrowth(live, inflight, target)/max(live, 1), 10), mostPercent)) / 10 * 10
}

// gcGrowth returns by how many bytes the heap may grow until the next collection.
func gcGrowth(live, inflight, target int64) int64 {
	return max(target-live, live-2*inflight, min(target, leastGrowth))
}
