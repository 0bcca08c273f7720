package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/api/v1"
)

// Committed says what is known about a write that failed.
type Committed string

// What can be known about a failed write. Reads are always CommittedNo.
const (
	// CommittedNo: it did not take place and will not.
	CommittedNo Committed = v1.CommittedNo
	// CommittedUnknown: it may have taken place, or may still do so.
	CommittedUnknown Committed = v1.CommittedUnknown
)

// ErrClosed is wrapped by the errors of calls on a closed Client.
var ErrClosed = errors.New("the client is closed")

// Error is a call that failed.
type Error struct {
	Op         string        // the method that was called, for example "enqueue"
	Name       string        // what it was called for: an id or a name; "" if it is about no single thing
	Status     int           // HTTP status of the last answer; 0 if no server answered
	Tag        string        // the server's name for the refusal; "" if it gave none
	Message    string        // for people
	Committed  Committed     // what is known about the write
	RetryAfter time.Duration // when the server thinks a repetition makes sense; 0: it did not say
	Tried      []Try         // the last failure of each server, in the order of the first ones
	Err        error         // the cause, if it is not an answer: context, connection, decoding

	invalid bool
	again   bool // the same request may be answered otherwise
}

// Try is the last failure of one server.
type Try struct {
	Server string
	Err    error
}

// Error says what failed, why, and whether the write may have happened.
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
		return e.Err.Error() // success was not what failed
	case e.Status != 0:
		return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	case len(e.Tried) > 0:
		return e.triedText()
	case e.Err != nil:
		return e.Err.Error()
	}
	return "failed"
}

// triedText lists the servers in one line.
func (e *Error) triedText() string {
	parts := make([]string, len(e.Tried))
	for i, t := range e.Tried {
		parts[i] = t.Server + ": " + t.Err.Error()
	}
	return "no server could be reached: " + strings.Join(parts, "; ")
}

// Unwrap returns the cause, so that errors.Is finds a context's error.
func (e *Error) Unwrap() error { return e.Err }

// Unreachable reports whether no server answered at all.
func (e *Error) Unreachable() bool { return e.Status == 0 && len(e.Tried) > 0 }

// Refused reports whether a server has answered that the request itself is at
// fault: sent again it would be refused again. A 404 that is not from a node is no
// refusal: a proxy may say so while its nodes are away.
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

// Invalid reports whether the client itself has found the request at fault, and has
// sent nothing: called again it would not be sent either.
func (e *Error) Invalid() bool { return e.invalid }

// IsNotFound reports whether err says that there is no such thing:
// job, worker, batch, queue or cron.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Tag == v1.TagNotFound
}

// IsOverQuota reports whether err says that a quota, or another limit to what
// the cluster keeps, is used up. The client does not repeat such a call: it may
// take long until there is room.
func IsOverQuota(err error) bool {
	var e *Error
	return errors.As(err, &e) && overQuota(e.Tag)
}

func overQuota(tag string) bool {
	switch tag {
	case v1.TagTooManyJobs, v1.TagTooManyBytes, v1.TagTooManyQueues, v1.TagTooManyCrons:
		return true
	}
	return false
}

// HasTag reports whether err is a refusal that the server gave that name, one
// of the Tag constants of v1.
func HasTag(err error, tag string) bool {
	var e *Error
	return errors.As(err, &e) && e.Tag == tag
}

// IsLeaseLost reports whether err is a refusal that says that the caller does
// not hold the job: what it does there is no longer wanted.
func IsLeaseLost(err error) bool {
	var e *Error
	return errors.As(err, &e) && LostLease(e.Tag)
}

// LostLease reports whether a refusal's tag means that the lease is lost.
func LostLease(tag string) bool {
	switch tag {
	case v1.TagNotFound, v1.TagNotRunning, v1.TagWrongWorker, v1.TagStaleToken, v1.TagLeaseExpired,
		v1.TagTimedOut:
		return true
	}
	return false
}
