package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"osqueue/cmd/osqueue/view"
)

// notRun marks err as a failure that is not the command's.
func notRun(err error) error {
	if err == nil || errors.As(err, new(*view.ExitError)) || view.ExitCode(err) == view.ExitUsage {
		return err
	}
	return &view.ExitError{Code: view.ExitNotRun, Err: err}
}

// interrupted returns the error of a command that Ctrl-C has ended. text names the jobs
// that continue.
func interrupted(text string) error {
	return &view.ExitError{Code: view.ExitInterrupted, Err: errors.New(text)}
}

// leaving returns the error of a command that stops waiting for jobs. The jobs continue;
// how describes how to wait for them again.
func leaving(ctx context.Context, err error, jobs int, how string) error {
	text := goOn(jobs) + "; " + how
	switch {
	case errors.Is(err, syscall.EPIPE) && jobs == 0:
		return &view.ExitError{Code: view.ExitClosedPipe, Err: view.SilentError{}}
	case errors.Is(err, syscall.EPIPE):
		return &view.ExitError{Code: view.ExitClosedPipe, Err: errors.New(text)}
	case err == nil || ctx.Err() == nil && jobs == 0:
		return err
	case ctx.Err() != nil:
		return interrupted(text)
	}
	return fmt.Errorf("%w\n%s", err, text)
}

// cutShort returns the error of a command that did not send all lines after a reported
// fault; how describes how to continue.
func cutShort(sent int, how string) error {
	if sent == 0 {
		return view.SilentError{}
	}
	return errors.New("not all lines were sent; correct the cause, and continue with the same command and " + how)
}

// closedPipe makes writes to a closed pipe fail instead of ending the process, until
// restore is called, so that the command can still print its advice.
func closedPipe() (restore func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}

// goOn describes the jobs that continue.
func goOn(jobs int) string {
	if jobs == 1 {
		return "1 job continues"
	}
	return fmt.Sprintf("%d jobs continue", jobs)
}
