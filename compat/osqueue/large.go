package osqueue

import (
	"context"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// Messages up to smallBytes are only bounded by how many calls there may be. One that
// turns out to be longer needs a place of a sort that there are fewer of, and one that
// is longer than mediumBytes a place of the other sort, too.
const (
	smallBytes  = 16 << 10
	mediumBytes = 256 << 10
)

// places are for what is large: there are only so many.
type places chan struct{}

// take waits for a place.
func (p places) take(ctx context.Context) (release func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// room is where messages find a place.
type room struct{ medium, large places }

func newRoom(l *Limits) *room {
	return &room{medium: make(places, l.MediumMessages), large: make(places, l.LargeMessages)}
}

// seat is the room that one message takes.
type seat struct {
	room  *room
	taken []func()
}

// grow waits until there is room for a message of which so much has been read.
func (s *seat) grow(ctx context.Context, read int) error {
	for (len(s.taken) == 0 && read >= smallBytes) || (len(s.taken) == 1 && read >= mediumBytes) {
		sort := s.room.medium
		if len(s.taken) == 1 {
			sort = s.room.large
		}
		release, err := sort.take(ctx)
		if err != nil {
			return err
		}
		s.taken = append(s.taken, release)
	}
	return nil
}

// settle gives back the room that a message of that length does not need.
func (s *seat) settle(size int) {
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

// rise gives the room back.
func (s *seat) rise() { s.settle(0) }

// ending is what is to be done when a request has been answered.
type ending struct{ steps []func() }

type endingKey struct{}

// withEnding returns a context for a request, and its ending.
func withEnding(ctx context.Context) (context.Context, *ending) {
	e := new(ending)
	return context.WithValue(ctx, endingKey{}, e), e
}

// atEnd has f called when the request of ctx has been answered. It is for the
// goroutine of the request.
func atEnd(ctx context.Context, f func()) {
	e := ctx.Value(endingKey{}).(*ending)
	e.steps = append(e.steps, f)
}

func (e *ending) run() {
	for _, f := range e.steps {
		f()
	}
}

// seatedBody is the body of a request, which needs room as it gets longer. Nobody
// knows how long a packed one will be: a few KiB of gzip can be megabytes. It needs
// the room of the longest until it has been unpacked, which settled is for.
type seatedBody struct {
	io.ReadCloser
	ctx    context.Context
	seat   *seat
	packed bool
	read   int
}

// Read implements io.Reader.
func (b *seatedBody) Read(into []byte) (int, error) {
	if err := b.seat.grow(b.ctx, b.read); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(into)
	b.read += n
	if b.packed && n > 0 {
		if err := b.seat.grow(b.ctx, mediumBytes); err != nil {
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

type seatKey struct{}

// settled gives back the room that a message does not need, now that it is known.
func settled(method connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		if m, ok := r.Any().(proto.Message); ok {
			ctx.Value(seatKey{}).(*seat).settle(proto.Size(m))
		}
		return method(ctx, r)
	}
}
