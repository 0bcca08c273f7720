package view

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// PrintError writes err to stderr, with the next step for the user.
func (g *Globals) PrintError(err error) {
	if err == nil || errors.As(err, new(SilentError)) {
		return
	}
	text := "osqueue: " + Explain(err, g.Timeout)
	if strings.Contains(text, StartHint) {
		text += g.otherContexts()
	}
	text = plain(text)
	if g.JSON {
		text = errorJSON(err)
	}
	_, _ = fmt.Fprintln(g.Err, ServerName(text)) // there is no other place to report it
}

// StartHint is the advice after a refused connection.
const StartHint = `start a cluster with "osqueue dev", or name its nodes with --servers or OSQUEUE_SERVERS`

// otherContexts names the contexts that the command has not used.
func (g *Globals) otherContexts() string {
	used, err := g.Resolve()
	if err != nil {
		return ""
	}
	names, err := g.Contexts().List()
	names = slices.DeleteFunc(names, func(name string) bool { return name == used.Name })
	if err != nil || len(names) == 0 {
		return ""
	}
	return "\nor choose another context with --context or osqueue context use: " + strings.Join(names, ", ")
}

// notOfNodes lists statuses that come from another program if the answer has no tag.
var notOfNodes = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}

const otherHint = `the server may not be a node of osqueue: check --servers and OSQUEUE_SERVERS`

const pathHint = `the node does not have that path: remove the path from --servers or OSQUEUE_SERVERS; without a path there, the node is older than this command`

// Explain adds the next step for the user to errors of the client.
func Explain(err error, timeout time.Duration) string {
	var e *client.Error
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.Tag == "" && slices.Contains(notOfNodes, e.Status):
		return err.Error() + "\n" + otherHint
	case e.Tag == v1.TagNoRoute:
		return err.Error() + "\n" + pathHint
	case !e.Unreachable():
		return err.Error()
	}
	if err.Error() != e.Error() { // err wraps the client's error with more text
		return err.Error() + "\n" + StartHint
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s:\n", e.Op, unreached(e, timeout))
	for _, t := range e.Tried {
		fmt.Fprintf(&b, "  %s  %v\n", t.Server, t.Err)
	}
	if e.Committed == client.CommittedUnknown {
		b.WriteString("It is not known whether the request took effect.\n")
	}
	b.WriteString(StartHint)
	return b.String()
}

// unreached describes why no server could be reached.
func unreached(e *client.Error, timeout time.Duration) string {
	if slices.ContainsFunc(e.Tried, func(t client.Try) bool { return !errors.Is(t.Err, syscall.ECONNREFUSED) }) {
		return fmt.Sprintf("no server could be reached within %v", timeout)
	}
	return "no server accepts connections"
}

// errorJSON formats err as JSON for programs.
func errorJSON(err error) string {
	type tried struct {
		Server string `json:"server"`
		Error  string `json:"error"`
	}
	out := struct {
		Error     string  `json:"error"`
		Op        string  `json:"op,omitzero"`
		Status    int     `json:"status,omitzero"`
		Tag       string  `json:"_tag,omitzero"`
		Committed string  `json:"committed,omitzero"`
		Tried     []tried `json:"tried,omitempty"`
	}{Error: err.Error()}
	var e *client.Error
	if errors.As(err, &e) {
		out.Op, out.Status, out.Tag, out.Committed = e.Op, e.Status, e.Tag, string(e.Committed)
		for _, t := range e.Tried {
			out.Tried = append(out.Tried, tried{Server: t.Server, Error: t.Err.Error()})
		}
	}
	line, fault := json.Marshal(out, jsontext.AllowInvalidUTF8(true))
	if fault != nil {
		return `{"error":"unprintable"}` // not reached: all fields are texts and numbers
	}
	return Escaped(string(line))
}

// Cause is why one server could not be asked, without the server's name.
func Cause(err error) string {
	var e *client.Error
	if errors.As(err, &e) && len(e.Tried) == 1 {
		return e.Tried[0].Err.Error()
	}
	return err.Error()
}

// InMemory reports whether a bucket exists only in the process that opens it.
func InMemory(bucket string) bool { return strings.HasPrefix(bucket, "mem:") }

// OpenError explains why a bucket cannot be opened. Usually its URL is wrong, except for
// a directory without permission.
func OpenError(err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	return &UsageError{Err: err}
}

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
