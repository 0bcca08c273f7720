package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"osqueue/client"
)

// Job is the job that a handler runs.
type Job struct {
	client.ClaimedJob
	reporter *progressReporter // nil: progress is not sent
	log      *attemptLog       // nil: the log is not kept
	throttle func(ctx context.Context, key string, d time.Duration) error
	memory   *memory // nil: the job has none
	put      func(ctx context.Context, name string, r io.Reader) error
	open     func(ctx context.Context, name string) (io.ReadCloser, error)
}

var errNoCluster = errors.New("the job runs without a cluster, which has the artefacts")

// Put stores the bytes of r as an artefact of the job: a file of up to 5 GiB. One with the same name, also of an earlier
// attempt, is replaced.
func (j Job) Put(ctx context.Context, name string, r io.Reader) error {
	if j.put == nil {
		return errNoCluster
	}
	return j.put(ctx, name, r)
}

// Open returns the bytes of an artefact of the job, see client.Client.OpenArtefact. The caller closes it.
func (j Job) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if j.open == nil {
		return nil, errNoCluster
	}
	return j.open(ctx, name)
}

// Throttle lets no job start for d, at most a day, under one of the limits of this job, such as that of an API that has
// answered 429. The job continues; its handler usually returns Snooze(d) then. An error means only that the call failed.
func (j Job) Throttle(ctx context.Context, key string, d time.Duration) error {
	if j.throttle == nil {
		return nil
	}
	return j.throttle(ctx, key, d)
}

// HandlerFunc runs a job. Its result, JSON or nil, completes the job; an error
// fails the attempt. It must return soon after ctx ends. context.Cause(ctx) is then
// ErrLeaseLost, ErrLeaseUnsure, ErrCancelled, ErrTimeout or ErrStopping.
type HandlerFunc func(ctx context.Context, job Job) (json.RawMessage, error)

// Middleware wraps a handler, to add a step around each job. It is called once for
// each handler, when Run begins. The handler that it returns may change the
// context, the job and the outcome, may skip the inner handler, and may panic.
type Middleware func(HandlerFunc) HandlerFunc

// wrap wraps fn in middleware; the first one is the outermost.
func wrap(fn HandlerFunc, around []Middleware) HandlerFunc {
	for _, m := range slices.Backward(around) {
		if fn = m(fn); fn == nil {
			panic("worker: a middleware returned no handler")
		}
	}
	return fn
}

// The causes of the end of a handler's context.
var (
	// ErrLeaseLost means that the cluster has revoked the lease. The result of the
	// handler is dropped.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrLeaseUnsure means that no heartbeat was answered for the length of the
	// lease, so another worker may have the job.
	ErrLeaseUnsure = errors.New("the lease could not be renewed in time")
	// ErrStopping means that the worker stops and StopTimeout has passed. The job
	// is released.
	ErrStopping = errors.New("the worker is stopping")
	// ErrCancelled means that someone asked to cancel the job. The job is cancelled
	// when the handler returns an error or the worker stops. If the handler returns
	// a result, the job is completed.
	ErrCancelled = errors.New("cancelled")
	// ErrTimeout means that the attempt has reached its timeout. The cluster has
	// ended it, or is about to.
	ErrTimeout = errors.New("the attempt exceeded its timeout")
)

// JSON makes a handler of a function with types of its own. If a payload does not decode into
// In, the job fails permanently; an absent payload is a zero In. encoding/json decodes In and
// encodes Out, with its tags and rules: a field without a tag matches a name in any case, the
// last one of duplicate names counts, and invalid Unicode becomes U+FFFD. If the result cannot
// be encoded, the job fails permanently.
func JSON[In, Out any](fn func(ctx context.Context, job Job, in In) (Out, error)) HandlerFunc {
	return func(ctx context.Context, job Job) (json.RawMessage, error) {
		var in In
		if job.Payload != nil {
			if err := json.Unmarshal(job.Payload, &in); err != nil {
				return nil, Permanent(fmt.Errorf("read the payload: %w", err))
			}
		}
		out, err := fn(ctx, job, in)
		if err != nil {
			return nil, err
		}
		var result bytes.Buffer
		enc := json.NewEncoder(&result)
		enc.SetEscapeHTML(false) // results are read by people, too
		if err := enc.Encode(out); err != nil {
			return nil, Permanent(fmt.Errorf("write the result: %w", err))
		}
		return bytes.TrimSuffix(result.Bytes(), []byte("\n")), nil
	}
}

// verdictError is a handler's error that also decides about the next attempt.
type verdictError struct {
	err       error
	permanent bool
	snoozed   bool
	delay     time.Duration
	atOnce    bool
}

func (e *verdictError) Error() string { return e.err.Error() }
func (e *verdictError) Unwrap() error { return e.err }

// Permanent marks err as an error that no retry can fix: the job is dead at once.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &verdictError{err: err, permanent: true}
}

// RetryAfter marks err as an error to retry after d, without the backoff of the
// job; 0 means at once. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &verdictError{err: err, delay: d, atOnce: d <= 0}
}

// classError is a handler's error with a class.
type classError struct {
	error
	class string
}

func (e *classError) Unwrap() error { return e.error }

// Class gives err a class, at most 64 bytes, by which the job decides what follows the failure
// (client.NewJob.OnError). Permanent and RetryAfter overrule the job. Class(nil, …) is nil.
func Class(err error, class string) error {
	if err == nil {
		return nil
	}
	return &classError{err, class}
}

// Snooze returns the error of a handler that cannot do the job yet: the job is released, the attempt does not
// count, and the next one begins after d at the earliest.
func Snooze(d time.Duration) error {
	return &verdictError{err: fmt.Errorf("the job is to run again in %v", d), snoozed: true, delay: max(d, 0)}
}

// Outcome is the outcome of this worker's attempt of a job.
type Outcome string

// The outcomes.
const (
	Completed  Outcome = "completed"  // the result is stored
	Failed     Outcome = "failed"     // this attempt failed; retries may follow
	Released   Outcome = "released"   // released or snoozed; the attempt does not count
	Suspended  Outcome = "suspended"  // by Sleep, WaitSignal or WaitChildren; the attempt does not count
	Cancelled  Outcome = "cancelled"  // after a request to cancel the job
	TimedOut   Outcome = "timed_out"  // the attempt reached its timeout; retries may follow
	Lost       Outcome = "lost"       // the cluster revoked the lease
	Unreported Outcome = "unreported" // the worker stopped before the cluster answered
)

// Finished describes a job that this worker no longer holds.
type Finished struct {
	Job     Job
	Outcome Outcome
	Result  json.RawMessage // set if Outcome is Completed
	Err     error           // set if Outcome is not Completed
	Took    time.Duration   // run time of the handler
}

// An Attempt is the outcome of one run of a handler, as a worker reports it.
type Attempt struct {
	Outcome Outcome
	Result  json.RawMessage // if Outcome is Completed
	Log     string          // of a completed attempt; a failure quotes the log in its text
	Failure client.Failure  // if Outcome is Failed, Cancelled or TimedOut
	Err     error           // the handler's error
}

// Try runs fn once without a cluster, for tests of handlers, and returns the report that
// a worker would send. A panic of fn is a failure. If ctx ends with one of the causes of
// this package (ErrCancelled, ErrTimeout, …), the outcome is that of the cause.
func Try(ctx context.Context, fn HandlerFunc, job client.ClaimedJob) Attempt {
	running := Job{ClaimedJob: job, log: new(attemptLog)}
	result, err := call(ctx, fn, running)
	rep := decide(context.Cause(ctx), result, err).with(running.log.text())
	return Attempt{Outcome: rep.outcome, Result: rep.result, Log: rep.log, Failure: rep.failure, Err: rep.err}
}

// Limits of the texts in reports, in bytes.
const (
	maxErrorText    = 8 << 10 // of a failure; the server cuts it there
	maxProgressText = 1 << 10 // of a progress
	maxPanicText    = 2 << 10 // of a panic value, so that the stack has room after it
)

// maxDelay is the maximum delay of a retry; the server refuses more.
const maxDelay = 10 * 366 * 24 * time.Hour

// unreadableError is the error of a job whose handler did not run, so that it has nothing
// of the payload.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// call runs the handler; a panic, or the end of its goroutine, is an error.
func call(ctx context.Context, fn HandlerFunc, job Job) (json.RawMessage, error) {
	type answer struct {
		result json.RawMessage
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		returned := false
		defer func() { answers <- a }()
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("the handler panicked: %s\n%s", clipTo(fmt.Sprint(p), maxPanicText), debug.Stack())
			} else if !returned {
				a.err = fmt.Errorf("%w\n%s", errExit, debug.Stack())
			}
		}()
		a.result, a.err = fn(ctx, job)
		if a.err != nil {
			failure(a.err) // if it panics, as a nil pointer that is an error may, then here
		}
		returned = true
	}()
	a := <-answers
	return a.result, a.err
}

var errExit = errors.New("the handler ended its goroutine")

// clip bounds a text, and makes it valid for JSON.
func clip(text string) string { return clipTo(text, maxErrorText) }

func clipTo(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
