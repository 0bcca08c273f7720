package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"osqueue/client"
	"osqueue/client/internal/sleep"
)

// releaseTimeout bounds the time to find and release the jobs of a claim with an
// unknown outcome.
const releaseTimeout = 5 * time.Second

// earlyPause is the minimum time between claims if an empty answer comes before the requested
// wait is over. It bounds the rate of claims.
const earlyPause = 100 * time.Millisecond

// claimJobs claims as many jobs as there is free capacity, until ctx ends or a claim is
// refused. When it returns, no claim is in flight and no job waits.
func (s *session) claimJobs(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var claims sync.WaitGroup
	for ctx.Err() == nil {
		if a, ok := s.capacity.request(time.Now(), s.cfg.PollWait); ok {
			claims.Go(func() {
				if err := s.claimAs(ctx, a, s.claimOptions(a), false); err != nil {
					fail(err)
				}
			})
			continue
		}
		select {
		case <-s.capacity.wake:
		case <-ctx.Done():
		}
	}
	s.endClaiming()
	claims.Wait()
	if err := context.Cause(ctx); errors.Is(err, errClaimsRefused) {
		return err
	}
	return nil
}

var errClaimsRefused = errors.New("the cluster refuses the claims of this worker")

// claimOptions returns the options of a new claim.
func (s *session) claimOptions(a *claimRequest) client.ClaimOptions {
	return client.ClaimOptions{
		Worker: s.cfg.Name, Types: a.types, Max: a.max, Wait: a.wait, Lease: s.cfg.Lease, RequestID: client.NewID(),
		Instance: s.instance, Confirms: true,
	}
}

// claimAs repeats a claim until it is answered, and starts its jobs. The claim keeps its request
// id while its outcome is unknown, because it may have been granted jobs. lost says that an
// answer that may have brought jobs is lost already.
func (s *session) claimAs(ctx context.Context, a *claimRequest, opts client.ClaimOptions, lost bool) error {
	var jobs []client.ClaimedJob
	defer func() { s.accept(a, jobs) }()
	for pauses := newPauses(); ; {
		asked := time.Now()
		got, err := s.queue.Claim(ctx, opts)
		lost = err != nil && (lost || unknown(err))
		switch {
		case ctx.Err() != nil:
			s.releaseClaimed(opts, got, lost)
			return nil
		case err == nil && len(got) == 0:
			sleep.For(ctx, min(a.wait, earlyPause)-time.Since(asked))
			return nil
		case err == nil:
			jobs = got
			return nil
		case refused(err):
			return fmt.Errorf("%w: %w", errClaimsRefused, err)
		}
		s.log.Warn("claim failed", "error", err)
		sleep.For(ctx, pauses.NextBackOff())
	}
}

func newPauses() *backoff.ExponentialBackOff {
	return sleep.Pauses(200*time.Millisecond, 5*time.Second)
}

// accept starts the jobs of a claim, or keeps them until a slot is free.
func (s *session) accept(a *claimRequest, jobs []client.ClaimedJob) {
	if len(jobs) > 0 {
		s.seen()
	}
	held := make([]*lease, 0, len(jobs))
	for _, job := range jobs {
		if h := s.newLease(job); s.leases.add(h) {
			held = append(held, h)
			continue
		}
		s.log.Error("a claim returned a job that this worker runs already", "job", job.ID, "token", job.Token)
	}
	start, ok := s.capacity.granted(a, held)
	if !ok {
		s.returnAll(held)
		return
	}
	s.startAll(start)
	for _, h := range held {
		if h.ctx.Err() != nil { // before it waited
			s.skip(h)
		}
	}
}

// skip settles a waiting job whose context has ended: it is lost, cancelled, or out of time, or
// its lease is unsure, and it must not start.
func (s *session) skip(h *lease) {
	if s.capacity.drop(h) {
		s.running.Go(func() { s.settle(h, nil, context.Cause(h.ctx)) })
	}
}

// returnWaiting releases the jobs that were not started, and lets no other job
// start.
func (s *session) returnWaiting() { s.returnAll(s.capacity.stop()) }

func (s *session) returnAll(jobs []*lease) {
	for _, h := range jobs {
		h.cancel(ErrStopping)
		s.running.Go(func() { s.settle(h, nil, context.Cause(h.ctx)) })
	}
}

// releaseClaimed releases the jobs of a claim that was answered after the stop began. If
// the answer was lost, releaseClaimed repeats the claim with the same request id.
func (s *session) releaseClaimed(opts client.ClaimOptions, jobs []client.ClaimedJob, lost bool) {
	ctx, cancel := context.WithTimeout(s.reports, releaseTimeout)
	defer cancel()
	if lost {
		var err error
		opts.Wait = 0
		jobs, err = s.queue.Claim(ctx, opts)
		if err != nil {
			s.log.Warn("a claim was lost; its jobs return to the queue when their leases expire", "error", err)
		}
	}
	s.releaseAll(ctx, jobs)
}

// releaseAll releases jobs that were not started.
func (s *session) releaseAll(ctx context.Context, jobs []client.ClaimedJob) {
	leases := make([]client.Lease, len(jobs))
	for i, job := range jobs {
		leases[i] = job.Lease()
	}
	for part := range slices.Chunk(leases, client.MaxBatchJobs) {
		errs := deliver(part, func(part []client.Lease) ([]client.Beat, error) {
			return s.queue.ReleaseBatch(ctx, s.cfg.Name, part)
		})
		for i, err := range errs {
			if err != nil && !client.IsLeaseLost(err) {
				s.log.Warn("cannot release a job", "job", part[i].JobID, "error", err)
				s.unreported.Add(1)
			}
		}
	}
}

func unknown(err error) bool {
	var e *client.Error
	return !errors.As(err, &e) || e.Committed == client.CommittedUnknown
}

// complete completes jobs, and claims others in the same call if no claim for their capacity is under way.
func (s *session) complete(jobs []client.Completion) ([]client.Beat, error) {
	a := s.capacity.requestWithReports(len(jobs))
	if a == nil {
		return s.queue.CompleteBatch(s.reports, s.cfg.Name, jobs)
	}
	opts := s.claimOptions(a)
	beats, claimed, err := s.queue.CompleteAndClaim(s.reports, jobs, opts)
	switch {
	case err == nil:
		s.accept(a, claimed)
	case unknown(err):
		// The claim may have been granted: it is repeated by itself.
		s.running.Go(func() { _ = s.claimAs(s.jobs, a, opts, true) })
	default:
		s.accept(a, nil)
	}
	return beats, err
}
