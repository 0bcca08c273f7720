package view

import (
	"context"
	"errors"
	"io"
)

// Interruptible reads what may not come, or not end: a terminal, a pipe. Main
// catches the signals that would end the process, so Read ends with ctx.
type Interruptible struct {
	Ctx context.Context
	In  io.Reader
	buf []byte
}

var errInterrupted = &ExitError{Code: ExitInterrupted, Err: errors.New("interrupted")}

func (r *Interruptible) Read(p []byte) (int, error) {
	if r.Ctx.Err() != nil {
		return 0, errInterrupted // buf may still be read into
	}
	if len(r.buf) < len(p) {
		r.buf = make([]byte, len(p)) // p is the caller's again when this returns
	}
	type read struct {
		n   int
		err error
	}
	done := make(chan read, 1)
	go func() {
		n, err := r.In.Read(r.buf[:len(p)])
		done <- read{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, r.buf[:got.n]), got.err
	case <-r.Ctx.Done():
		return 0, errInterrupted
	}
}

// Stdin is stdin for as long as ctx lasts.
func (g *Globals) Stdin(ctx context.Context) io.Reader { return &Interruptible{Ctx: ctx, In: g.In} }
