package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"osqueue/internal/cli/view"
)

// begunReader reports when a reader has begun to read.
type begunReader struct {
	io.Reader
	begun chan struct{}
}

func (r *begunReader) Read(p []byte) (int, error) {
	select {
	case r.begun <- struct{}{}:
	default:
	}
	return r.Reader.Read(p)
}

// Ctrl-C ends a command that waits for a silent stdin: a terminal, or a pipe that stays
// open.
func TestInterruptedWhileReading(t *testing.T) {
	for _, line := range []string{
		"run -- cat",
		"submit wc",
		"submit wc -",
		"submit wc --text --file -",
		"submit wc --text --file - --wait",
		"map - -- echo",
		"job delete --all",
	} {
		q := withJobs(t, 0, 1, 0)
		if got := interruptedReading(t, q, line); got.code != view.ExitInterrupted || len(q.all()) != 1 {
			t.Errorf("%s: %+v, %d jobs", line, got, len(q.all()))
		}
	}
}

// interruptedReading runs a command line that is interrupted when it reads from a
// terminal.
func interruptedReading(t *testing.T, q *queueFake, line string) ended {
	t.Helper()
	in, write := io.Pipe()
	defer write.Close()
	stdin := &begunReader{Reader: in, begun: make(chan struct{}, 1)}
	c := newCommand(t, q.srv.URL)
	context.AfterFunc(c.ctx, func() { write.Close() }) // else a failure would be a test that hangs
	ctx, interrupt := context.WithCancel(c.ctx)
	c.ctx, c.stdin, c.tty = ctx, stdin, true
	go func() {
		<-stdin.begun
		interrupt()
	}()
	return c.run(strings.Fields(line)...)
}
