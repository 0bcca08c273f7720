package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

// Outcome is the outcome of this worker's attempt of a job.
type Outcome string

// The outcomes.
const (
	Completed  Outcome = "completed"
	Failed     Outcome = "failed"     // this attempt failed; retries may follow
	Released   Outcome = "released"   // released; the attempt does not count
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

// report repeats a report until the cluster accepts or refuses it, or the context reports ends.
func (s *shift) report(rep report, f *Finished) {
	f.Outcome, f.Result, f.Err = rep.outcome, rep.result, rep.err
	pauses := newPauses()
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
		case refused(err) && rep.log != "":
			s.about(f.Job).Warn("a completion is refused; it is sent without its log", "error", err)
			rep.log = "" // which must not cost the job its result
			continue
		case refused(err) && rep.outcome == Completed:
			rep = failure(Permanent(fmt.Errorf("the cluster does not take the result: %w", err)))
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
func (s *shift) send(lease client.Lease, rep report) error {
	switch rep.outcome {
	case Completed:
		return s.completions.do(client.Completion{Lease: lease, Result: rep.result, Log: rep.log})
	case Released:
		return s.releases.do(lease)
	default:
		return s.failures.do(client.FailedJob{Lease: lease, Failure: rep.failure})
	}
}

// reportBytes is the approximate size of a report in a request without the texts of the job and
// of its handler: field names and the token.
const reportBytes = 64

func (s *shift) prepareReports() {
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
func (s *shift) reportGap() time.Duration {
	if s.room.ahead() {
		return 20 * time.Millisecond
	}
	return 0
}

// noteReports logs once for all jobs of a call why it failed. It returns err.
func (s *shift) noteReports(what string, jobs int, err error) error {
	switch {
	case err == nil:
		s.seen()
	case refused(err) && jobs > 1:
		s.log.Debug("reports are refused together; they are sent apart", "report", what, "jobs", jobs, "error", err)
	case s.reports.Err() == nil:
		s.log.Warn("reports failed; what can be repeated will be", "report", what, "jobs", jobs, "error", err)
	}
	return err
}

func (s *shift) finished(f Finished) {
	if f.Outcome == Unreported {
		s.unreported.Add(1)
	}
	s.cfg.Finished(f)
}
