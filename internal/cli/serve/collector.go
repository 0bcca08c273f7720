package serve

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collector adapts Go's garbage collector to a memory target.
//
// With GOGC=100 the collector runs dozens of times a second for a heap of 20 MB under load.
// So the heap may grow to the target first, whatever is in use; above the target GOGC is 100.
// When the node is idle, the collector releases the garbage of the last load to the system.
type collector struct {
	target int64 // bytes of heap up to which it runs rarely
	tune   bool  // GOGC is not set by the environment

	percent  int   // GOGC in force
	seen     int64 // bytes allocated so far, at the last look
	quiet    int   // looks in a row without a load
	released int64 // bytes allocated so far, when memory was last released
}

const (
	// defaultMemoryTarget is twice the heap in use of a node with 100 000 small jobs.
	defaultMemoryTarget = 96 << 20

	// collectorLook is the interval at which the collector looks at the heap.
	collectorLook = time.Second
	// quietLooks is the number of looks without a load after which the node is idle.
	quietLooks = 5
	// quietBytes is the allocation between two looks up to which there is no load.
	quietBytes = 4 << 20
	// releaseBytes is the least allocation that is worth giving memory back: it takes a full
	// collection.
	releaseBytes = 32 << 20

	leastPercent = 100 // GOGC above the target
	mostPercent  = 800 // GOGC of the smallest heap
)

func newCollector(target int64) *collector {
	return &collector{target: target, tune: os.Getenv("GOGC") == "", percent: leastPercent}
}

// run looks at the heap until ctx ends.
func (c *collector) run(ctx context.Context) {
	tick := time.NewTicker(collectorLook)
	defer tick.Stop()
	figures := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	for {
		metrics.Read(figures)
		c.look(int64(figures[0].Value.Uint64()), int64(figures[1].Value.Uint64()))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look sets GOGC for the live heap, and releases memory when the node has become idle.
// allocated counts from the start of the process. Both are in bytes.
func (c *collector) look(live, allocated int64) {
	if p := gcPercent(live, c.target); c.tune && p != c.percent {
		c.percent = p
		debug.SetGCPercent(p)
	}
	if c.idle(allocated) {
		debug.FreeOSMemory()
	}
}

// idle reports whether memory is to be released: once after each load.
func (c *collector) idle(allocated int64) bool {
	since := allocated - c.seen
	c.seen = allocated
	if since > quietBytes {
		c.quiet = 0
		return false
	}
	c.quiet++
	if c.quiet < quietLooks || allocated-c.released < releaseBytes {
		return false
	}
	c.released = allocated
	return true
}

// gcPercent returns the value of GOGC with which a heap of live bytes grows to the target
// before the next collection. It is a multiple of 10: changing it stops the program for a
// moment.
func gcPercent(live, target int64) int {
	p := 100 * (target - live) / max(live, 1)
	return int(min(max(p, leastPercent), mostPercent)) / 10 * 10
}
