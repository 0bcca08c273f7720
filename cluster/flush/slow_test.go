package flush

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/sleep"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// narrow is a connection to the bucket that transfers at most rate bytes of the log per
// second, for all writes together.
type narrow struct {
	storage.Bucket
	mu   sync.Mutex
	rate int // 0: no limit
	free time.Time
	sent int
}

func newNarrow(b storage.Bucket) *narrow {
	n := new(narrow)
	n.Bucket = storage.Decorate(b, func(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		if c.Op == storage.OpPutIfAbsent && !sleep.For(ctx, n.wait(c.Key, c.Bytes)) {
			return c.Refuse(errors.New("the connection was given up"))
		}
		return next(ctx)
	})
	return n
}

// wait returns the transfer time of the bytes, after all earlier ones.
func (n *narrow) wait(key string, bytes int) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rate == 0 || !strings.HasPrefix(key, "log/") {
		return 0
	}
	n.sent += bytes
	if n.free.Before(time.Now()) {
		n.free = time.Now()
	}
	n.free = n.free.Add(time.Duration(bytes) * time.Second / time.Duration(n.rate))
	return time.Until(n.free)
}

// TestBacklogOverANarrowLine checks that a backlog is written over a connection on which a
// whole step takes longer than the timeout of a write.
func TestBacklogOverANarrowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCalm(t)
		n := newNarrow(o.below)
		o.below = n
		for _, mb := range o.members {
			mb.gate, mb.unflushed = newGate(n), NewUnflushedLog(1<<20) // it can hold the whole backlog
		}
		o.lead()
		for range 20 {
			o.work(300)
			time.Sleep(60 * time.Millisecond)
		}
		o.flushed(time.Minute)
		n.mu.Lock()
		n.rate, n.sent = 400, 0
		n.mu.Unlock()
		for range 20 {
			o.work(1000)
		}
		backlog := o.leader.mb.unflushed.Lag().Bytes
		o.flushed(4 * time.Minute)
		n.mu.Lock()
		t.Logf("a backlog of %d bytes took %d", backlog, n.sent)
		if backlog < int64(o.cfg.StepBytes) || int64(n.sent) > 4*backlog {
			t.Errorf("a backlog of %d bytes took %d", backlog, n.sent)
		}
		n.mu.Unlock()
		o.end()
	})
}

// TestEndInTheMiddleOfACheckpoint checks that a leader term ends at once while a checkpoint is
// being written to a bucket that does not answer: the node may be needed again.
func TestEndInTheMiddleOfACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		stalled := o.faults.Inject(fault.Rule{Kind: fault.Stall, KeyPrefix: "checkpoint/"})
		for range 40 {
			o.work(600)
			time.Sleep(100 * time.Millisecond)
		}
		if stalled.Hits() == 0 {
			t.Fatal("no checkpoint is being written")
		}
		began := time.Now()
		o.leader.stop(false)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		stalled.Stop()
		o.waits.Wait()
		o.inspect(o.r)
	})
}

// TestSmallestView checks that for every bound of the jobs in the document the cost of a flush
// does not grow with the depth of the queue.
func TestSmallestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCalm(t)
		o.cfg.ViewMax = 1
		o.lead()
		for range 20 {
			o.work(300)
			time.Sleep(60 * time.Millisecond)
		}
		o.flushed(time.Minute)
		before := o.Count("jobs return")
		for range 20 {
			o.work(300)
			o.flushed(time.Minute)
		}
		if after := o.Count("jobs return"); after != before || o.viewed {
			t.Errorf("the jobs were written %d times", after-before)
		}
		o.end()
	})
}
