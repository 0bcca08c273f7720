package view

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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

// Background runs a function until stop is called, which waits for its end.
func Background(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Stdin is stdin for as long as ctx lasts.
func (g *Globals) Stdin(ctx context.Context) io.Reader { return &Interruptible{Ctx: ctx, In: g.In} }

// OpenInput opens a file for as long as ctx lasts; - is stdin.
func (g *Globals) OpenInput(ctx context.Context, name string) (io.ReadCloser, error) {
	in := io.NopCloser(g.In)
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in = file
	}
	return struct {
		io.Reader
		io.Closer
	}{&Interruptible{Ctx: ctx, In: in}, in}, nil
}

// NoTerminalError is the error of a command that needs a confirmation and has no terminal.
func NoTerminalError(command string) error {
	return Usagef("%s needs a confirmation, but stdin is not a terminal; give --yes to confirm", command)
}

// Interactive reports whether stdin is a terminal, so that the command can ask the user.
func (g *Globals) Interactive() bool {
	if g.Terminal != nil {
		return g.Terminal()
	}
	return IsTerminal(g.In)
}

// IsTerminal reports whether stdin is a character device other than the null device.
func IsTerminal(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Confirm asks a question on stderr, and returns an error unless the answer is yes. Only y and yes mean that; the
// end of stdin means no.
func (g *Globals) Confirm(ctx context.Context, question string) error {
	if err := WritePlain(g.Err, question+" [y/N] "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(io.LimitReader(g.Stdin(ctx), 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed")
}
