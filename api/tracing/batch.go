package tracing

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Sender sends an ExportTraceServiceRequest in protobuf to a collector, until ctx ends. It does not
// read the request after it has returned.
type Sender func(ctx context.Context, request []byte) error

// limits are those of a batcher. The environment variables OTEL_BSP_… set them.
type limits struct {
	queue   int           // spans that wait, beyond those that are sent
	batch   int           // spans of one request
	delay   time.Duration // after which a batch is sent that is not full
	timeout time.Duration // of a batch, with all attempts to send it
}

func limitsFromEnv() limits {
	l := limits{
		queue:   positive("OTEL_BSP_MAX_QUEUE_SIZE", 2048),
		batch:   positive("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
		delay:   time.Duration(positive("OTEL_BSP_SCHEDULE_DELAY", 5000)) * time.Millisecond,
		timeout: time.Duration(positive("OTEL_BSP_EXPORT_TIMEOUT", 30_000)) * time.Millisecond,
	}
	l.batch = min(l.batch, l.queue)
	return l
}

// positive returns the number in an environment variable, or else byDefault.
func positive(name string, byDefault int) int {
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		otel.Handle(fmt.Errorf("%s is %q, which is no positive number; it is %d now", name, text, byDefault))
		return byDefault
	}
	return int(n)
}

// batcher sends spans in batches. It encodes a span at once: the processor of the SDK wakes a
// goroutine for each span, which takes longer. A span that finds the queue full is dropped.
type batcher struct {
	limits
	send    Sender
	node    *resource.Resource
	headMax int // bytes of what stands before the spans of a request

	wake   chan struct{} // has a value if a batch is full or the batcher is closed
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is sent any more

	mu      sync.Mutex // guards the fields below
	waiting []batch    // only the last one is not full
	spans   int        // in waiting
	spare   [][]byte   // for the next batches, at most spareMax
	size    int        // of the largest batch so far
	closed  bool
}

// spareMax is the number of buffers in use when the collector keeps up: one is filled and one is
// sent.
const spareMax = 2

// batch is a number of encoded spans.
type batch struct {
	encoded []byte // after headMax bytes for the head of the request
	spans   int
}

// newBatcher returns a batcher. The caller must call start, and then close.
func newBatcher(l limits, send Sender, node *resource.Resource) *batcher {
	return &batcher{
		limits: l, send: send, node: node, headMax: len(appendHead(nil, node, math.MaxInt32)),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// start begins to send. Every delay, it calls collect, which may add spans, before it sends a batch that
// is not full.
func (b *batcher) start(collect func()) {
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(context.Background())
	go b.run(ctx, collect)
}

// add puts a span into the queue.
func (b *batcher) add(s *span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.spans == b.queue {
		return
	}
	if n := len(b.waiting); n == 0 || b.waiting[n-1].spans == b.batch {
		b.waiting = append(b.waiting, batch{encoded: b.buffer()})
	}
	last := &b.waiting[len(b.waiting)-1]
	last.encoded = appendSpan(last.encoded, s)
	last.spans++
	b.spans++
	if last.spans == b.batch {
		b.signal()
	}
}

// buffer returns a buffer for a batch. It has the size of the largest one so far, because a buffer
// that grows to it is copied many times.
func (b *batcher) buffer() []byte {
	n := len(b.spare)
	if n == 0 {
		return make([]byte, b.headMax, b.headMax+b.size+b.size/8)
	}
	last := b.spare[n-1]
	b.spare = b.spare[:n-1]
	return last
}

// signal wakes run.
func (b *batcher) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// close sends the rest until ctx ends.
func (b *batcher) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.signal()
	b.mu.Unlock()
	defer b.cancel()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run sends batches until the batcher is closed and has none, or ctx ends.
func (b *batcher) run(ctx context.Context, collect func()) {
	defer close(b.done)
	tick := time.NewTicker(b.delay)
	defer tick.Stop()
	for ctx.Err() == nil {
		late := false
		select {
		case <-ctx.Done():
		case <-b.wake:
		case <-tick.C:
			late = true
			collect()
		}
		next, last := b.next(late)
		for next.spans > 0 && ctx.Err() == nil {
			b.upload(ctx, next)
			late = late && next.spans == b.batch // the spans since then have not waited
			next, last = b.next(late)
		}
		if last {
			return
		}
	}
}

// next returns the first batch if it is full, late, or the batcher is closed, and else an empty one;
// last means that no other one comes.
func (b *batcher) next(late bool) (first batch, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 && (late || b.closed || b.waiting[0].spans == b.batch) {
		first = b.waiting[0]
		b.waiting = slices.Delete(b.waiting, 0, 1)
		b.spans -= first.spans
	}
	return first, b.closed
}

// upload sends a batch. The head of the request ends where the spans begin, so nothing is copied.
func (b *batcher) upload(ctx context.Context, one batch) {
	size := len(one.encoded) - b.headMax
	head := appendHead(nil, b.node, size)
	request := one.encoded[b.headMax-len(head):]
	copy(request, head)
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if err := b.send(ctx, request); err != nil {
		otel.Handle(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size = max(b.size, size)
	if len(b.spare) < spareMax {
		b.spare = append(b.spare, one.encoded[:b.headMax])
	}
}
