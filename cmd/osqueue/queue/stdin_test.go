package queue

import (
	"context"
	"io"
	"strings"
	"testing"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
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
		if got := interruptedReading(t, q, line); got.Code != view.ExitInterrupted || len(q.All()) != 1 {
			t.Errorf("%s: %+v, %d jobs", line, got, len(q.All()))
		}
	}
}

// interruptedReading runs a command line that is interrupted when it reads from a
// terminal.
func interruptedReading(t *testing.T, q *clitest.Fake, line string) clitest.Result {
	t.Helper()
	in, write := io.Pipe()
	defer write.Close()
	stdin := &begunReader{Reader: in, begun: make(chan struct{}, 1)}
	c := newTestCommand(t, q.Server.URL)
	context.AfterFunc(c.Ctx, func() { write.Close() }) // else a failure would be a test that hangs
	ctx, interrupt := context.WithCancel(c.Ctx)
	c.Ctx, c.Stdin, c.Tty = ctx, stdin, true
	go func() {
		<-stdin.begun
		interrupt()
	}()
	return c.Run(strings.Fields(line)...)
}
