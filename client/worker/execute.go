package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// Limits of the texts in reports, in bytes.
const (
	maxErrorText    = 8 << 10 // of a failure; the server cuts it there
	maxProgressText = 1 << 10 // of a progress
	maxPanicText    = 2 << 10 // of a panic value, so that the stack has room after it
)

// maxDelay is the maximum delay of a retry; the server refuses more.
const maxDelay = 10 * 366 * 24 * time.Hour

// newHold registers a claimed job.
func (s *shift) newHold(job client.ClaimedJob) *hold {
	h := newHold(s.jobs, job, s.skip)
	h.job.log = new(attemptLog)
	h.reporter.send = func(ctx context.Context, p client.Progress) error { return s.tell(ctx, h, p) }
	return h
}

// startAll runs jobs, each in a goroutine of its own, in slots that the caller has taken.
func (s *shift) startAll(jobs []*hold) {
	for _, h := range jobs {
		s.running.Go(func() { s.execute(h) })
	}
}

// execute runs the handler, unless the job must not start any more, gives the slot to another
// job, and settles this one.
func (s *shift) execute(h *hold) {
	var result json.RawMessage
	err := context.Cause(h.ctx)
	if err == nil {
		err = unreadable(h.job)
	}
	if err == nil {
		began := time.Now()
		result, err = call(h.ctx, s.worker.handler(h.job.Type), h.job)
		h.took = time.Since(began)
	}
	s.startAll(s.room.ended(h))
	s.settle(h, result, err)
}

// retrySealed is the wait before another attempt of a job whose payload this worker could
// not decrypt. A release would bring the job back at once, without end.
const retrySealed = 30 * time.Second

// unreadable returns the error for a job whose payload could not be decrypted, or nil. The
// job dies at once if no worker can decrypt it; else another worker may.
func unreadable(job Job) error {
	if job.OpenErr == nil {
		return nil
	}
	err := &unreadableError{job.OpenErr}
	if sealed := new(client.SealError); errors.As(err, &sealed) && sealed.Lasting() {
		return Permanent(err)
	}
	return RetryAfter(retrySealed, err)
}

// unreadableError is the error of a job whose handler did not run, so that it has nothing
// of the payload.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// letGo removes a job from the worker, once.
func (s *shift) letGo(h *hold) {
	if s.holds.remove(h) {
		s.room.gone(h)
	}
}

// settle reports the outcome of a job and releases its capacity, unless another goroutine
// settles it.
func (s *shift) settle(h *hold, result json.RawMessage, err error) {
	if !h.settle() {
		s.tellLost(h, h.took)
		return
	}
	defer s.letGo(h)
	f := Finished{Job: h.job, Took: h.took}
	s.report(decide(context.Cause(h.ctx), result, err).with(h.job.log.text()), &f)
	s.finished(f)
}

// tellLost ends a lost job and calls Config.Finished, at most once.
func (s *shift) tellLost(h *hold, took time.Duration) {
	if !h.markLost() {
		return // the goroutine that settles the job ends it when its report is answered
	}
	defer s.letGo(h)
	f := Finished{Job: h.job, Took: took}
	f.Outcome, f.Err = lostAs(context.Cause(h.ctx))
	s.about(h.job).Warn("a job was lost", "type", h.job.Type, "why", f.Err)
	s.finished(f)
}

// about returns the log for lines about a job.
func (s *shift) about(job Job) *slog.Logger {
	log := s.log.With("job", job.ID)
	if id := v1.TraceID(job.Headers[v1.HeaderTraceparent]); id != "" {
		log = log.With("trace_id", id)
	}
	return log
}

// lostAs returns the outcome of a job that was lost while its handler ran.
func lostAs(cause error) (Outcome, error) {
	if errors.Is(cause, ErrTimeout) {
		return TimedOut, cause
	}
	return Lost, ErrLeaseLost
}

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

// report is the outcome of a job as the worker sends it.
type report struct {
	outcome Outcome // Completed, Failed, Cancelled, TimedOut or Released
	result  json.RawMessage
	log     string // of the attempt, if Completed
	failure client.Failure
	err     error // of the handler
}

// decide turns the result of a handler into a report. cause is the reason for which its context
// ended, or nil.
func decide(cause error, result json.RawMessage, err error) report {
	switch {
	case err == nil && (result == nil || jsontext.Value(result).IsValid()):
		return report{outcome: Completed, result: result}
	case err == nil:
		return failure(Permanent(errNotJSON))
	case errors.Is(cause, errShortLease):
		return failure(cause)
	case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseUnsure):
		return report{outcome: Released, err: err}
	case errors.Is(cause, ErrCancelled):
		return ended(Cancelled, ErrCancelled, err)
	case errors.Is(cause, ErrTimeout):
		return ended(TimedOut, ErrTimeout, err)
	}
	return failure(err)
}

// ended returns the report of a handler that stopped because its context ended with cause: a
// failure that begins with the cause, followed by the handler's error, if that says more, or by
// the output of its command.
func ended(outcome Outcome, cause, err error) report {
	rep := failure(err)
	rep.outcome = outcome
	said := ": " + err.Error()
	if errors.Is(err, cause) || errors.Is(err, context.Canceled) {
		said = ""
		if logged := new(LoggedError); errors.As(err, &logged) {
			said = ": " + logged.Log
		}
	}
	rep.failure.Error = clip(cause.Error() + said)
	return rep
}

var errNotJSON = errors.New("the handler's result is not valid JSON")

func failure(err error) report {
	f := client.Failure{Error: clip(err.Error())}
	f.Public = errors.As(err, new(*unreadableError))
	var v *verdictError
	if errors.As(err, &v) {
		f.Permanent, f.Delay, f.AtOnce = v.permanent, min(v.delay, maxDelay), v.atOnce
	}
	return report{outcome: Failed, failure: f, err: err}
}

// clip bounds a text, and makes it valid for JSON.
func clip(text string) string { return clipTo(text, maxErrorText) }

func clipTo(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
