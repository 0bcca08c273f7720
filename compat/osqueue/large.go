package osqueue

import (
	"context"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"osqueue/internal/limit"
)

// A message of up to smallBytes is bounded by the number of calls only. A longer one
// needs a medium slot, and one of more than mediumBytes a large slot in addition.
const (
	smallBytes  = 16 << 10
	mediumBytes = 256 << 10
)

// slots is a semaphore: its capacity is the number of slots.
type slots chan struct{}

// take waits for a free slot.
func (p slots) take(ctx context.Context) (release func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// capacity is the number of longer messages that may be in memory.
type capacity struct{ medium, large slots }

func newCapacity(l *Limits) *capacity {
	return &capacity{medium: make(slots, l.MediumMessages), large: make(slots, l.LargeMessages)}
}

// A reservation is the set of slots that one message occupies, and its bytes in the budget. These are
// never refused, because the slots bound them. It is not safe for concurrent use.
type reservation struct {
	capacity *capacity
	taken    []func() // release the slots, the medium one first
	held     limit.Hold
}

// counted is a message that takes bytes of the budget as it arrives.
type counted struct {
	io.Reader
	held *limit.Hold
}

// Read implements io.Reader.
func (c counted) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.held.Force(n)
	return n, err
}

// grow waits for the slots that a message needs of which read bytes have arrived.
func (s *reservation) grow(ctx context.Context, read int) error {
	for (len(s.taken) == 0 && read >= smallBytes) || (len(s.taken) == 1 && read >= mediumBytes) {
		sort := s.capacity.medium
		if len(s.taken) == 1 {
			sort = s.capacity.large
		}
		release, err := sort.take(ctx)
		if err != nil {
			return err
		}
		s.taken = append(s.taken, release)
	}
	return nil
}

// settle releases the slots that a message of size bytes does not need.
func (s *reservation) settle(size int) {
	needed := 0
	if size >= smallBytes {
		needed++
	}
	if size >= mediumBytes {
		needed++
	}
	for last := len(s.taken) - 1; last >= needed; last-- {
		s.taken[last]()
		s.taken = s.taken[:last]
	}
}

// release releases all slots and bytes.
func (s *reservation) release() {
	s.settle(0)
	s.held.Release()
}

// An ending is the list of functions to call after a request has been answered.
type ending struct{ steps []func() }

type endingKey struct{}

// withEnding returns a context for a request and its ending.
func withEnding(ctx context.Context) (context.Context, *ending) {
	e := new(ending)
	return context.WithValue(ctx, endingKey{}, e), e
}

// atEnd registers f to be called after the request of ctx has been answered. Only the
// goroutine of the request may call it.
func atEnd(ctx context.Context, f func()) {
	e := ctx.Value(endingKey{}).(*ending)
	e.steps = append(e.steps, f)
}

func (e *ending) run() {
	for _, f := range e.steps {
		f()
	}
}

// A slottedBody is the body of a request that takes slots as it grows. The length of a
// compressed body is unknown until it is decompressed, and a few KiB of gzip can be
// megabytes: it takes the slots of the longest message until settled releases them.
type slottedBody struct {
	io.ReadCloser
	ctx    context.Context
	slots  *reservation
	packed bool
	read   int
}

// Read implements io.Reader.
func (b *slottedBody) Read(into []byte) (int, error) {
	if err := b.slots.grow(b.ctx, b.read); err != nil {
		return 0, err
	}
	n, err := counted{b.ReadCloser, &b.slots.held}.Read(into)
	b.read += n
	if b.packed && n > 0 {
		if err := b.slots.grow(b.ctx, mediumBytes); err != nil {
			return 0, err
		}
	}
	return n, err
}

// isPacked reports whether messages of the request may be compressed.
func isPacked(h http.Header) bool {
	for _, name := range []string{"Content-Encoding", "Grpc-Encoding"} {
		if coding := h.Get(name); coding != "" && coding != "identity" {
			return true
		}
	}
	return false
}

type reservationKey struct{}

// settled releases the slots that a message does not need once its size is known.
func settled(method connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		if m, ok := r.Any().(proto.Message); ok {
			ctx.Value(reservationKey{}).(*reservation).settle(proto.Size(m))
		}
		return method(ctx, r)
	}
}
