package worker

import (
	"context"
	"sync/atomic"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// CompleterClaimer is a Queue that also completes jobs and claims the next ones in one call,
// as *client.Client does. A worker uses it if its Queue implements it.
type CompleterClaimer interface {
	// CompleteAndClaim completes jobs of the worker that claims, as CompleteBatch does, and
	// claims others, without a wait. A refusal with the tag v1.TagUnknownMember means that
	// the cluster cannot do this, and that it has done nothing.
	CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error)
}

// oldServer is how long a worker completes and claims in separate calls after a server has
// refused to do both in one. Servers may be upgraded meanwhile.
const oldServer = time.Minute

// together says when completions may carry the next claim.
type together struct {
	queue CompleterClaimer // nil: never
	until atomic.Int64     // ns after the start of the worker before which they may not
}

// complete completes jobs, and claims others in the same call if the room for them is not
// asked for already.
func (s *shift) complete(jobs []client.Completion) ([]client.Beat, error) {
	if s.together.queue == nil || int64(time.Since(s.began)) < s.together.until.Load() {
		return s.queue.CompleteBatch(s.reports, s.cfg.Name, jobs)
	}
	a := s.room.askBehind(len(jobs))
	if a == nil {
		return s.queue.CompleteBatch(s.reports, s.cfg.Name, jobs)
	}
	opts := s.claimOptions(a)
	beats, claimed, err := s.together.queue.CompleteAndClaim(s.reports, jobs, opts)
	switch {
	case err == nil:
		s.takeIn(a, claimed)
	case client.HasTag(err, v1.TagUnknownMember):
		s.together.until.Store(int64(time.Since(s.began) + oldServer))
		s.takeIn(a, nil)
		return s.queue.CompleteBatch(s.reports, s.cfg.Name, jobs)
	case unknown(err):
		// The claim may have been granted: it is repeated by itself.
		s.running.Go(func() { _ = s.claimAs(s.jobs, a, opts, true) })
	default:
		s.takeIn(a, nil)
	}
	return beats, err
}
