package view

import (
	"errors"
	"fmt"
)

// ExitHelp ends the help of every command that talks to a cluster.
const ExitHelp = "Exit status: 0 on success, 1 on a failure, 2 on a usage error."

// The exit statuses.
const (
	ExitOK = iota
	ExitFailure
	ExitUsage
)

// UsageError reports that the user called a command wrongly.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError with a formatted message.
func Usagef(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }

// SilentError fails the command without a message, because the command has printed one.
type SilentError struct{}

func (SilentError) Error() string { return "failed" }

// ExitCode returns the exit status for err.
func ExitCode(err error) int {
	var usage *UsageError
	var status *ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &status):
		return status.Code
	}
	return ExitFailure
}

// Exit statuses of commands that run commands, as in env(1), xargs(1) and shells.
const (
	ExitSomeFailed  = 123 // of many
	ExitNotRun      = 125 // the failure is not the command's
	ExitInterrupted = 130 // by Ctrl-C
	ExitClosedPipe  = 141 // SIGPIPE
)

// ExitError sets the exit status of the command. Err is the message; a SilentError has
// been printed already.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

func (e *ExitError) Unwrap() error { return e.Err }
