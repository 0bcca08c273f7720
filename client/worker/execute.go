package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
)

// maxErrorText bounds what a failure tells the cluster, in bytes.
const maxErrorText = 16 << 10

// begin runs a job in a goroutine of its own, in a slot that was taken for it.
func (s *shift) begin(job Job) {
	h := newHold(s.jobs, job)
	s.holds.add(h)
	s.running.Go(func() {
		defer s.slots.give(1)
		defer s.holds.remove(h)
		s.execute(h)
	})
}

// execute runs the handler and settles the job.
func (s *shift) execute(h *hold) {
	result, err := call(h.ctx, s.worker.handler(h.job.Type), h.job)
	f := Finished{Job: h.job, Took: time.Since(h.began)}
	if !h.settle() {
		if h.isLost() {
			s.log.Warn("a job was lost to its lease", "job", h.job.ID, "type", h.job.Type)
			f.Outcome, f.Err = Lost, ErrLeaseLost
			s.finished(f)
		}
		return
	}
	s.report(decide(context.Cause(h.ctx), result, err), &f)
	s.finished(f)
}

// call runs the handler; a panic, or the end of its goroutine, is an error.
func call(ctx context.Context, fn HandlerFunc, job Job) (jsontext.Value, error) {
	type answer struct {
		result jsontext.Value
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: errExit}
		defer func() { answers <- a }()
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("the handler panicked: %v\n%s", p, debug.Stack())
			}
		}()
		a.result, a.err = fn(ctx, job)
	}()
	a := <-answers
	return a.result, a.err
}

var errExit = errors.New("the handler ended its goroutine")

// report is what the cluster is told about a job.
type report struct {
	outcome Outcome // Completed, Failed or Released
	result  jsontext.Value
	failure client.Failure
	err     error // of the handler
}

// decide turns what a handler returned into a report. cause is why its context
// ended, if it did.
func decide(cause error, result jsontext.Value, err error) report {
	switch {
	case err == nil && (result == nil || result.IsValid()):
		return report{outcome: Completed, result: result}
	case err == nil:
		return failure(Permanent(errNotJSON))
	case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseUnsure):
		return report{outcome: Released, err: err}
	}
	return failure(err)
}

var errNotJSON = errors.New("the handler's result is not valid JSON")

func failure(err error) report {
	f := client.Failure{Error: clip(err.Error())}
	var v *verdictError
	if errors.As(err, &v) {
		f.Permanent, f.Delay = v.permanent, v.delay
	}
	return report{outcome: Failed, failure: f, err: err}
}

// clip bounds a text, and makes it one that JSON can carry.
func clip(text string) string {
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
