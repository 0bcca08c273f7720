package main

import (
	"errors"
	"fmt"
)

// exitHelp ends the help of every command that talks to a cluster.
const exitHelp = "Exit status: 0 if all went well, 1 if something failed, 2 if the command was used wrongly."

// The exit statuses.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

// usageError reports that the user called a command wrongly.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{err: fmt.Errorf(format, args...)} }

// silentError fails the command without a message, because the command has printed one.
type silentError struct{}

func (silentError) Error() string { return "failed" }

// exitCode returns the exit status for err.
func exitCode(err error) int {
	var usage *usageError
	var status *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &status):
		return status.code
	}
	return exitFailure
}

// Exit statuses of commands that run commands, as in env(1), xargs(1) and shells.
const (
	exitSomeFailed  = 123 // of many
	exitNotRun      = 125 // the failure is not the command's
	exitInterrupted = 130 // by Ctrl-C
	exitClosedPipe  = 141 // SIGPIPE
)

// exitError sets the exit status of the command. Err is the message; a silentError has
// been printed already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }
