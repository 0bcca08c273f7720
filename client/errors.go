package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// Committed is the knowledge about a write that failed.
type Committed string

// The values of Error.Committed. Reads always have CommittedNo.
const (
	// CommittedNo means that the write did not take place and will not.
	CommittedNo Committed = v1.CommittedNo
	// CommittedUnknown means that the write may have taken place, or may still do
	// so.
	CommittedUnknown Committed = v1.CommittedUnknown
)

// ErrClosed is wrapped by the errors of calls on a closed Client.
var ErrClosed = errors.New("the client is closed")

// Error is the error of a call that failed. Every method of Client that sends a
// request returns it.
type Error struct {
	Op         string        // the method that was called, for example "enqueue"
	Name       string        // the id or name that the call was about; "" if there is none
	Status     int           // HTTP status of the last answer; 0 if no server answered
	Tag        string        // machine-readable reason of the refusal; "" if the server gave none
	Message    string        // for people
	Committed  Committed     // whether the write may have taken place
	RetryAfter time.Duration // the server's advice when to repeat the call; 0: none
	Tried      []Try         // the last failure of each server, in the order of their first failures
	Err        error         // the cause, if it is not an answer: context, connection or decoding

	invalid bool
	again   bool // the same request may succeed later
}

// Try is the last failure of one server.
type Try struct {
	Server string
	Err    error
}

// Error returns a sentence that says what failed, why, and whether the write may
// have taken place.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Name != "" {
		b.WriteString(" " + strconv.Quote(e.Name))
	}
	b.WriteString(": ")
	b.WriteString(e.reason())
	if e.Committed == CommittedUnknown {
		b.WriteString(" (it is not known whether it took effect)")
	}
	return b.String()
}

func (e *Error) reason() string {
	switch {
	case e.Message != "":
		return e.Message
	case e.Status/100 == 2 && e.Err != nil:
		return e.Err.Error() // the status says success; the failure is Err
	case e.Status != 0:
		return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	case len(e.Tried) > 0:
		return e.triedText()
	case e.Err != nil:
		return e.Err.Error()
	}
	return "failed"
}

// triedText lists the servers and their failures in one line.
func (e *Error) triedText() string {
	parts := make([]string, len(e.Tried))
	for i, t := range e.Tried {
		parts[i] = t.Server + ": " + t.Err.Error()
	}
	return "no server could be reached: " + strings.Join(parts, "; ")
}

// Unwrap returns the cause, so that errors.Is finds the error of a context.
func (e *Error) Unwrap() error { return e.Err }

// Unreachable reports whether no server answered.
func (e *Error) Unreachable() bool { return e.Status == 0 && len(e.Tried) > 0 }

// Refused reports whether a server answered that the request itself is wrong, so
// that a repetition would fail in the same way. An answer that does not come from a
// node is no refusal, whatever its status: the next one may come from a node.
func (e *Error) Refused() bool {
	if overQuota(e.Tag) {
		return true
	}
	if e.again {
		return false
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

// Invalid reports whether the client found the request invalid and sent nothing. A
// repetition would fail in the same way.
func (e *Error) Invalid() bool { return e.invalid }

// IsNotFound reports whether err says that the job, worker, batch, queue or cron
// schedule of the call does not exist.
func IsNotFound(err error) bool { return HasTag(err, v1.TagNotFound) }

// IsOverQuota reports whether err says that a quota, or another limit of the
// cluster, is used up. The client does not repeat such a call, because it may take
// long until the usage falls.
func IsOverQuota(err error) bool { return overQuota(tagOf(err)) }

func overQuota(tag string) bool {
	switch tag {
	case v1.TagTooManyJobs, v1.TagTooManyBytes, v1.TagTooManyQueues, v1.TagTooManyCrons, v1.TagTooManyTokenJobs, v1.TagTooManyTokenBytes:
		return true
	}
	return false
}

// HasTag reports whether err is a refusal with the given tag, one of the Tag
// constants of package v1.
func HasTag(err error, tag string) bool { return tagOf(err) == tag }

// tagOf returns the tag of a refusal, or "".
func tagOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Tag
	}
	return ""
}

// IsLeaseLost reports whether err says that the caller no longer holds the lease of
// the job. Stop working on the job: its result would be refused.
func IsLeaseLost(err error) bool { return LostLease(tagOf(err)) }

// LostLease reports whether a tag means that the lease is lost.
func LostLease(tag string) bool {
	switch tag {
	case v1.TagNotFound, v1.TagNotRunning, v1.TagWrongWorker, v1.TagStaleToken, v1.TagLeaseExpired,
		v1.TagTimedOut:
		return true
	}
	return false
}
