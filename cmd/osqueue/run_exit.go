package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// The exit statuses of commands that run commands, as env(1), xargs(1) and
// shells have them.
const (
	exitSomeFailed  = 123 // of many
	exitNotRun      = 125 // it was not the command that failed
	exitInterrupted = 130 // by Ctrl-C
	exitClosedPipe  = 141 // SIGPIPE
)

// exitError gives the command an exit status of its own. Err says more; a
// silentError is for what has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// notRun is err as a failure that is not the command's.
func notRun(err error) error {
	if err == nil || errors.As(err, new(*exitError)) || exitCode(err) == exitUsage {
		return err
	}
	return &exitError{code: exitNotRun, err: err}
}

// interrupted is the end by Ctrl-C; text says what goes on.
func interrupted(text string) error { return &exitError{code: exitInterrupted, err: errors.New(text)} }

// leaving is the end of a command that waits for jobs, which go on without it; how
// says how to get back to them.
func leaving(ctx context.Context, err error, jobs int, how string) error {
	text := goOn(jobs) + "; " + how
	switch {
	case errors.Is(err, syscall.EPIPE) && jobs == 0:
		return &exitError{code: exitClosedPipe, err: silentError{}}
	case errors.Is(err, syscall.EPIPE):
		return &exitError{code: exitClosedPipe, err: errors.New(text)}
	case err == nil || ctx.Err() == nil && jobs == 0:
		return err
	case ctx.Err() != nil:
		return interrupted(text)
	}
	return fmt.Errorf("%w\n%s", err, text)
}

// cutShort is the end after a fault that has been told, and kept lines from being
// sent; how says how to go on with them.
func cutShort(sent int, how string) error {
	if sent == 0 {
		return silentError{}
	}
	return errors.New("not all lines were sent; when that is mended, go on with the same command and " + how)
}

// closedPipe lets writes to a pipe that nobody reads any more fail, instead of
// ending the process at once, until restore is called: there is more to say then.
func closedPipe() (restore func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}

// goOn says that so many jobs are left to themselves.
func goOn(jobs int) string {
	if jobs == 1 {
		return "1 job goes on"
	}
	return fmt.Sprintf("%d jobs go on", jobs)
}
