package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"osqueue/storage"
)

const (
	// IdleLimit is how long a request may show no progress.
	IdleLimit = 30 * time.Second
	// minBytesPerSecond is the slowest line on which a write is given time to
	// end.
	minBytesPerSecond = 1 << 20
)

// WriteTimeout is how long a write of size bytes may take. The caller's own
// deadline counts as well.
func WriteTimeout(size int) time.Duration {
	return IdleLimit + time.Duration(size/minBytesPerSecond)*time.Second
}

// Idle is a context that ends when its user has not reported progress for a
// time, so that a long transfer may take its time and a dead one may not.
type Idle struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	cause  error
}

// NewIdle starts the watch. Stop must be called.
func NewIdle(parent context.Context, limit time.Duration) *Idle {
	i := &Idle{limit: limit, cause: fmt.Errorf("no progress for %v: %w", limit, context.DeadlineExceeded)}
	i.Context, i.cancel = context.WithCancelCause(parent)
	i.timer = time.AfterFunc(limit, func() { i.cancel(i.cause) })
	return i
}

// Moved reports progress, and ends a pause.
func (i *Idle) Moved() { i.timer.Reset(i.limit) }

// Pause stops the watch while the caller is busy with something else.
func (i *Idle) Pause() { i.timer.Stop() }

// Stop ends the watch and the context.
func (i *Idle) Stop() {
	i.timer.Stop()
	i.cancel(nil)
}

// Explain replaces err by the watch's own error if that is why it occurred.
// Clients report every ended context as cancelled by the user.
func (i *Idle) Explain(err error) error {
	if err != nil && errors.Is(context.Cause(i.Context), i.cause) {
		return fmt.Errorf("%w (%s)", i.cause, err.Error()) // as text: the user did not cancel
	}
	return err
}

// ReadBody reads a response of size bytes (negative if that is unknown) and
// reports progress. A body that ends early is an error.
func ReadBody(i *Idle, body io.Reader, size int64) ([]byte, error) {
	if size > storage.MaxObjectBytes {
		return nil, fmt.Errorf("the object has %d bytes; at most %d are allowed", size, storage.MaxObjectBytes)
	}
	buf := bytes.NewBuffer(make([]byte, 0, max(size, 0)+bytes.MinRead))
	n, err := buf.ReadFrom(i.Reader(io.LimitReader(body, storage.MaxObjectBytes+1)))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the body: %w", i.Explain(err))
	case n > storage.MaxObjectBytes:
		return nil, fmt.Errorf("the object has more than %d bytes", storage.MaxObjectBytes)
	case size >= 0 && n != size:
		return nil, fmt.Errorf("read the body: %w: %d bytes of %d", io.ErrUnexpectedEOF, n, size)
	}
	return buf.Bytes(), nil
}

// Reader returns r, each read of which is progress.
func (i *Idle) Reader(r io.Reader) io.Reader { return &progress{idle: i, r: r} }

type progress struct {
	idle *Idle
	r    io.Reader
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		p.idle.Moved()
	}
	return n, err
}

// Body is the body of an answer that its caller reads as it likes. Close must be called.
type Body struct {
	idle *Idle
	body io.ReadCloser
	left int64
}

// NewBody returns size bytes of an answer that has at least as many. The time between two reads does not
// count as idle. Close stops idle.
func NewBody(idle *Idle, body io.ReadCloser, size int64) *Body {
	idle.Pause()
	return &Body{idle: idle, body: body, left: size}
}

// Read implements io.Reader. A body that ends early is an error.
func (b *Body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if err := b.idle.Err(); err != nil { // a part of the body may be here
		return 0, b.idle.Explain(err)
	}
	b.idle.Moved()
	defer b.idle.Pause()
	n, err := b.body.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		err = nil
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, b.idle.Explain(err)
}

// Close implements io.Closer.
func (b *Body) Close() error {
	b.idle.Stop()
	return b.body.Close()
}
