package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"osqueue/client"
)

const (
	// claimMax bounds one claim; the rest of the free slots claim next.
	claimMax = 1000
	// giveBackTimeout bounds the asking for, and giving back of, what a claim
	// of unknown outcome holds.
	giveBackTimeout = 5 * time.Second
)

// slots are tokens for the jobs that may run at once.
type slots chan struct{}

func newSlots(n int) slots {
	s := make(slots, n)
	s.give(n)
	return s
}

// take waits for a free slot and takes it, and up to limit-1 others that are
// free. It returns 0 if ctx ended.
func (s slots) take(ctx context.Context, limit int) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-s:
	case <-ctx.Done():
		return 0
	}
	for n := 1; n < limit; n++ {
		select {
		case <-s:
		default:
			return n
		}
	}
	return limit
}

func (s slots) give(n int) {
	for range n {
		s <- struct{}{}
	}
}

// claimJobs fills free slots until ctx ends, or a claim is refused. A claim
// that failed keeps its request id: it may hold jobs, and there are never fewer
// free slots the next time.
func (s *shift) claimJobs(ctx context.Context) error {
	pauses := newPauses()
	request := client.NewID()
	for {
		free := s.slots.take(ctx, claimMax)
		if free == 0 {
			return nil
		}
		n, err := s.claimOnce(ctx, free, request)
		s.slots.give(free - n)
		switch {
		case err == nil:
			pauses.Reset()
			request = client.NewID()
		case ctx.Err() == nil && refused(err):
			return fmt.Errorf("the cluster refuses the claims of this worker: %w", err)
		case ctx.Err() == nil:
			s.log.Warn("claim failed", "error", err)
			pause(ctx, pauses.NextBackOff())
		}
	}
}

func newPauses() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval:     200 * time.Millisecond,
		RandomizationFactor: 0.5,
		Multiplier:          2,
		MaxInterval:         5 * time.Second,
	}
}

// claimOnce claims up to free jobs and starts them. It returns how many.
func (s *shift) claimOnce(ctx context.Context, free int, request string) (int, error) {
	opts := client.ClaimOptions{
		Worker:    s.cfg.Name,
		Types:     s.worker.types(),
		Max:       free,
		Wait:      max(s.cfg.PollWait, 0),
		Lease:     s.cfg.Lease,
		RequestID: request,
	}
	jobs, err := s.queue.Claim(ctx, opts)
	if ctx.Err() != nil {
		s.giveBack(opts, jobs, err)
		return 0, err
	}
	if len(jobs) > 0 {
		s.seen()
	}
	for _, job := range jobs {
		s.begin(job)
	}
	return len(jobs), err
}

// giveBack returns what a claim got after the worker was told to stop. If its
// outcome is unknown it is asked for again, under the same request id.
func (s *shift) giveBack(opts client.ClaimOptions, jobs []client.ClaimedJob, err error) {
	ctx, cancel := context.WithTimeout(s.reports, giveBackTimeout)
	defer cancel()
	if err != nil && unknown(err) {
		opts.Wait = 0
		jobs, err = s.queue.Claim(ctx, opts)
		if err != nil {
			s.log.Warn("a claim may hold jobs that come back only when their leases end", "error", err)
		}
	}
	s.releaseAll(ctx, jobs)
}

// releaseAll gives jobs back, several at once.
func (s *shift) releaseAll(ctx context.Context, jobs []client.ClaimedJob) {
	var group errgroup.Group
	group.SetLimit(16)
	for _, job := range jobs {
		group.Go(func() error {
			if err := s.queue.Release(ctx, job.Lease()); err != nil && !client.IsLeaseLost(err) {
				s.log.Warn("job not given back", "job", job.ID, "error", err)
				s.unreported.Add(1)
			}
			return nil
		})
	}
	_ = group.Wait() // its functions return no errors
}

// refused reports whether the cluster has answered that the request itself is
// at fault.
func refused(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Refused()
}

func unknown(err error) bool {
	var e *client.Error
	return !errors.As(err, &e) || e.Committed == client.CommittedUnknown
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
