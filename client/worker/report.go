package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

// report repeats a report until the cluster accepts or refuses it, or the context reports ends.
func (s *session) report(rep report, f *Finished) {
	f.Outcome, f.Result, f.Err = rep.outcome, rep.result, rep.err
	pauses := newPauses()
	var since time.Time // the node denies the report
	for {
		err := s.send(f.Job.Lease(), rep)
		switch {
		case err == nil:
			return
		case client.HasTag(err, v1.TagTimedOut):
			f.Outcome, f.Result, f.Err = TimedOut, nil, err
			return
		case client.IsLeaseLost(err) && rep.outcome == TimedOut:
			f.Err = err // the cluster saw it at the same time, and has given the job to another
			return
		case client.IsLeaseLost(err):
			f.Outcome, f.Result, f.Err = Lost, nil, err
			return
		case errors.Is(err, client.ErrClosed):
			f.Outcome, f.Result, f.Err = Unreported, nil, err
			return
		case denied(err) && (since.IsZero() || time.Since(since) < f.Job.Length):
			if since.IsZero() {
				since = time.Now() // until the lease has ended: the job has its result
			}
		case refused(err) && !denied(err) && rep.log != "":
			s.about(f.Job).Warn("a completion was refused; sending it without its log", "error", err)
			rep.log = "" // which must not cost the job its result
			continue
		case refused(err) && !denied(err) && rep.outcome == Completed:
			rep = failure(Permanent(fmt.Errorf("the cluster refused the result: %w", err)))
			f.Outcome, f.Result, f.Err = rep.outcome, nil, rep.err
			continue
		case refused(err) && !denied(err) && rep.outcome == Suspended:
			rep = failure(Permanent(fmt.Errorf("the cluster refused the suspension: %w", err)))
			f.Outcome, f.Result, f.Err = rep.outcome, nil, rep.err
			continue
		case refused(err), s.reports.Err() != nil:
			f.Outcome, f.Err = Unreported, err
			return
		}
		sleep.For(s.reports, pauses.NextBackOff())
	}
}

// send sends the report, together with those of other jobs.
func (s *session) send(lease client.Lease, rep report) error {
	switch rep.outcome {
	case Completed:
		return s.completions.do(client.Completion{Lease: lease, Result: rep.result, Log: rep.log})
	case Released:
		lease.Delay = rep.delay
		return s.releases.do(lease)
	case Suspended:
		return s.noteReports("suspend", 1, s.queue.Suspend(s.reports, lease, rep.until))
	default:
		return s.failures.do(client.FailedJob{Lease: lease, Failure: rep.failure})
	}
}

// reportBytes is the approximate size of a report in a request without the texts of the job and
// of its handler: field names and the token.
const reportBytes = 64

func (s *session) prepareReports() {
	s.completions = &batcher[client.Completion]{
		gap: s.reportGap,
		size: func(c client.Completion) int {
			return reportBytes + len(c.Lease.JobID) + len(c.Result) + quotedBytes(c.Log)
		},
		send: func(jobs []client.Completion) ([]client.Beat, error) {
			beats, err := s.complete(jobs)
			return beats, s.noteReports("complete", len(jobs), err)
		},
	}
	s.failures = &batcher[client.FailedJob]{
		size: func(f client.FailedJob) int { return reportBytes + len(f.Lease.JobID) + len(f.Failure.Error) },
		send: func(jobs []client.FailedJob) ([]client.Beat, error) {
			beats, err := s.queue.FailBatch(s.reports, s.cfg.Name, jobs)
			return beats, s.noteReports("fail", len(jobs), err)
		},
	}
	s.releases = &batcher[client.Lease]{
		size: func(l client.Lease) int { return reportBytes + len(l.JobID) },
		send: func(leases []client.Lease) ([]client.Beat, error) {
			beats, err := s.queue.ReleaseBatch(s.reports, s.cfg.Name, leases)
			return beats, s.noteReports("release", len(leases), err)
		},
	}
}

// reportGap returns the least time between calls with completions. Every call costs
// each node a log entry, and while this worker has other work, a completion is not
// urgent.
func (s *session) reportGap() time.Duration {
	if s.capacity.ahead() {
		return 20 * time.Millisecond
	}
	return 0
}

// noteReports logs once for all jobs of a call why it failed. It returns err.
func (s *session) noteReports(what string, jobs int, err error) error {
	switch {
	case err == nil:
		s.seen()
	case refused(err) && jobs > 1:
		s.log.Debug("a batch of reports was refused; sending them one by one", "report", what, "jobs", jobs, "error", err)
	case s.reports.Err() == nil:
		s.log.Warn("sending reports failed; repeating those that can be repeated", "report", what, "jobs", jobs, "error", err)
	}
	return err
}

// with adds the log of the attempt to its report. A failure has it after the text of the error,
// as far as it fits.
func (r report) with(log string) report {
	switch {
	case log == "" || r.outcome == Released || r.outcome == Suspended:
	case r.outcome == Completed:
		r.log = log
	default:
		const between = ": "
		if capacity := maxErrorText - len(r.failure.Error) - len(between); capacity >= leastLogText {
			r.failure.Error += between + endOf(log, capacity, false)
		}
	}
	return r
}

// report is the outcome of a job as the worker sends it.
type report struct {
	outcome Outcome // Completed, Failed, Cancelled, TimedOut or Released
	result  json.RawMessage
	log     string // of the attempt, if Completed
	failure client.Failure
	delay   time.Duration     // if Released
	until   client.Suspension // if Suspended
	err     error             // of the handler
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
	if s, ok := errors.AsType[*suspendedError](err); ok {
		return report{outcome: Suspended, until: s.until, err: err}
	}
	f := client.Failure{Error: clip(err.Error())}
	f.Public = errors.As(err, new(*unreadableError))
	if c, ok := errors.AsType[*classError](err); ok {
		f.Class = strings.ToValidUTF8(c.class, "\uFFFD")
	}
	if v, ok := errors.AsType[*verdictError](err); ok {
		if v.snoozed {
			return report{outcome: Released, delay: min(v.delay, maxDelay), err: err}
		}
		f.Permanent, f.Delay, f.AtOnce = v.permanent, min(v.delay, maxDelay), v.atOnce
	}
	return report{outcome: Failed, failure: f, err: err}
}
