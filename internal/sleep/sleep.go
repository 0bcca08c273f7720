// Package sleep waits: for a while, until a context ends, or between the parts of a long piece of work. It wakes, too.
package sleep

import (
	"context"
	"io"
	"time"
)

// For waits for d, if it is positive, and reports whether ctx is still active.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// Wake lets the receiver of ch, which has room for one, continue now or when it next receives. It never blocks.
func Wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// restMax bounds one rest: what was slow may have been a disk or a bucket, which needs none.
const restMax = 10 * time.Millisecond

// Writer writes a large state while clients wait for answers. It rests after each write for as long as the caller and the write took since the last rest,
// so that they need half of a processor. Without rests a goroutine keeps its processor until the
// scheduler takes it away, 10 ms later, and every step of a commit can wait that long. It is used
// by one goroutine at a time.
type Writer struct {
	w       io.Writer
	resumed time.Time // the end of the last rest
}

// NewWriter returns a Writer to w. Its writes should be a small part of the state, some 64 KiB.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, resumed: time.Now()} }

func (p *Writer) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	time.Sleep(min(time.Since(p.resumed), restMax))
	p.resumed = time.Now()
	return n, err
}
