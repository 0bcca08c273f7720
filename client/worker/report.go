package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/api/v1"
	"osqueue/client"
)

// Outcome is how a job held by this worker ended.
type Outcome string

// The outcomes.
const (
	Completed  Outcome = "completed"
	Failed     Outcome = "failed"     // this attempt; others may follow
	Released   Outcome = "released"   // given back, the attempt does not count
	Cancelled  Outcome = "cancelled"  // because somebody asked for that
	TimedOut   Outcome = "timed_out"  // the attempt ran for too long; others may follow
	Lost       Outcome = "lost"       // the cluster had taken it back
	Unreported Outcome = "unreported" // the worker stopped before the cluster answered
)

// Finished tells about a job that this worker does not hold any more.
type Finished struct {
	Job     Job
	Outcome Outcome
	Result  jsontext.Value // if Completed
	Err     error          // if not Completed: why
	Took    time.Duration  // the handler
}

// report tells the cluster until it accepts or refuses, or reports end.
func (s *shift) report(rep report, f *Finished) {
	f.Outcome, f.Result, f.Err = rep.outcome, rep.result, rep.err
	pauses := newPauses()
	for {
		err := s.send(s.reports, f.Job.Lease(), rep)
		switch {
		case err == nil:
			s.seen()
			return
		case client.HasTag(err, v1.TagTimedOut):
			f.Outcome, f.Result, f.Err = TimedOut, nil, err
			return
		case client.IsLeaseLost(err):
			f.Outcome, f.Result, f.Err = Lost, nil, err
			return
		case refused(err) && rep.outcome == Completed:
			rep = failure(Permanent(fmt.Errorf("the cluster does not take the result: %w", err)))
			f.Outcome, f.Result, f.Err = rep.outcome, nil, rep.err
			continue
		case refused(err), s.reports.Err() != nil:
			f.Outcome, f.Err = Unreported, err
			return
		}
		s.log.Warn("report failed; it will be repeated", "job", f.Job.ID, "outcome", rep.outcome, "error", err)
		pause(s.reports, pauses.NextBackOff())
	}
}

func (s *shift) send(ctx context.Context, lease client.Lease, rep report) error {
	switch rep.outcome {
	case Completed:
		return s.queue.Complete(ctx, lease, rep.result)
	case Released:
		return s.queue.Release(ctx, lease)
	default:
		return s.queue.Fail(ctx, lease, rep.failure)
	}
}

func (s *shift) finished(f Finished) {
	if f.Outcome == Unreported {
		s.unreported.Add(1)
	}
	s.cfg.Finished(f)
}
