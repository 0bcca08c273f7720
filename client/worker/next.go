package worker

import (
	"context"

	"osqueue/client"
)

// CompleterClaimer is a Queue that also completes jobs and claims the next ones in one call,
// as *client.Client does. A worker uses it if its Queue implements it.
type CompleterClaimer interface {
	// CompleteAndClaim completes jobs of the worker that claims, as CompleteBatch does, and
	// claims others, without a wait.
	CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error)
}

// complete completes jobs, and claims others in the same call if the room for them is not
// asked for already.
func (s *shift) complete(jobs []client.Completion) ([]client.Beat, error) {
	if s.together == nil {
		return s.queue.CompleteBatch(s.reports, s.cfg.Name, jobs)
	}
	a := s.room.askBehind(len(jobs))
	if a == nil {
		return s.queue.CompleteBatch(s.reports, s.cfg.Name, jobs)
	}
	opts := s.claimOptions(a)
	beats, claimed, err := s.together.CompleteAndClaim(s.reports, jobs, opts)
	switch {
	case err == nil:
		s.takeIn(a, claimed)
	case unknown(err):
		// The claim may have been granted: it is repeated by itself.
		s.running.Go(func() { _ = s.claimAs(s.jobs, a, opts, true) })
	default:
		s.takeIn(a, nil)
	}
	return beats, err
}
