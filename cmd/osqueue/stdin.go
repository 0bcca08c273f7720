package main

import (
	"context"
	"errors"
	"io"
)

// interruptible reads what may not come, or not end: a terminal, a pipe. Main
// catches the signals that would end the process, so Read ends with ctx.
type interruptible struct {
	ctx context.Context
	in  io.Reader
	buf []byte
}

var errInterrupted = &exitError{code: exitInterrupted, err: errors.New("interrupted")}

func (r *interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
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
		n, err := r.in.Read(r.buf[:len(p)])
		done <- read{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, r.buf[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, errInterrupted
	}
}

// reader is stdin for as long as ctx lasts.
func (g *globals) reader(ctx context.Context) io.Reader { return &interruptible{ctx: ctx, in: g.stdin} }
