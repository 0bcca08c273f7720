// Package paced writes a large state while clients wait for answers.
package paced

import (
	"io"
	"time"
)

// restMax bounds one rest: what was slow may have been a disk or a bucket, which needs none.
const restMax = 10 * time.Millisecond

// Writer rests after each write for as long as the caller and the write took since the last rest,
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
