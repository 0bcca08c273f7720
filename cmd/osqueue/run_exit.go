package main

import (
	"context"
	"errors"
	"fmt"
)

// The exit statuses of commands that run commands, as env(1), xargs(1) and
// shells have them.
const (
	exitSomeFailed  = 123 // of many
	exitNotRun      = 125 // it was not the command that failed
	exitInterrupted = 130 // by Ctrl-C
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
	case err == nil || ctx.Err() == nil && jobs == 0:
		return err
	case ctx.Err() != nil:
		return interrupted(text)
	}
	return fmt.Errorf("%w\n%s", err, text)
}

// goOn says that so many jobs are left to themselves.
func goOn(jobs int) string {
	if jobs == 1 {
		return "1 job goes on"
	}
	return fmt.Sprintf("%d jobs go on", jobs)
}
