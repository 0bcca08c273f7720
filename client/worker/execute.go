package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"osqueue/client"
	"osqueue/client/internal/sleep"
)

// newLease registers a claimed job.
func (s *session) newLease(job client.ClaimedJob) *lease {
	h := newLease(s.jobs, job, s.skip)
	h.job.log = &attemptLog{began: s.logs.wake}
	h.job.throttle = func(ctx context.Context, key string, d time.Duration) error {
		return s.queue.Throttle(ctx, job.Lease(), key, d)
	}
	h.job.memory = newMemory(s.queue, job)
	h.job.put = func(ctx context.Context, name string, r io.Reader) error {
		return s.queue.PutArtefact(ctx, job.Lease(), name, r)
	}
	h.job.open = func(ctx context.Context, name string) (io.ReadCloser, error) {
		return s.queue.OpenArtefact(ctx, job.ID, name)
	}
	h.reporter.send = func(ctx context.Context, p client.Progress) error { return s.sendProgress(ctx, h, p) }
	return h
}

// startAll runs jobs, each in a goroutine of its own, in slots that the caller has taken.
func (s *session) startAll(jobs []*lease) {
	for _, h := range jobs {
		s.running.Go(func() { s.execute(h) })
	}
}

// execute runs the handler, unless the job must not start any more, gives the slot to another
// job, and settles this one.
func (s *session) execute(h *lease) {
	var result json.RawMessage
	err := context.Cause(h.ctx)
	if err == nil {
		err = unreadable(h.job)
	}
	if err == nil && h.job.Confirm {
		err = s.confirm(h)
	}
	if err == nil {
		began := time.Now()
		result, err = call(h.ctx, s.worker.handler(h.job.Type), h.job)
		h.took = time.Since(began)
	}
	s.startAll(s.capacity.ended(h))
	s.settle(h, result, err)
}

// confirm sends a heartbeat for the last attempt of a job, until it is accepted or the context of
// the job ends. So an attempt that this worker cannot report on, because it was frozen or cut
// off when it got the job, does not count.
func (s *session) confirm(h *lease) error {
	for pauses := newPauses(); ; {
		sent := time.Now()
		beats, err := s.queue.Heartbeat(h.ctx, s.cfg.Name, []client.Lease{h.job.Lease()})
		if err == nil && len(beats) == 1 {
			s.seen()
			s.noteBeat(h, beats[0], sent)
			if beats[0].Tag == "" {
				return context.Cause(h.ctx)
			}
		}
		if cause := context.Cause(h.ctx); cause != nil {
			return cause
		}
		s.about(h.job).Warn("cannot confirm the last attempt of a job; it does not start", "error", err)
		sleep.For(h.ctx, pauses.NextBackOff())
	}
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

// forget removes a job from the worker, once.
func (s *session) forget(h *lease) {
	if s.leases.remove(h) {
		s.capacity.gone(h)
	}
}

// settle reports the outcome of a job and releases its capacity, unless another goroutine
// settles it.
func (s *session) settle(h *lease, result json.RawMessage, err error) {
	if !h.settle() {
		s.reportLoss(h, h.took)
		return
	}
	defer s.forget(h)
	f := Finished{Job: h.job, Took: h.took}
	s.logs.flush(h)
	s.report(decide(context.Cause(h.ctx), result, err).with(h.job.log.text()), &f)
	s.finished(f)
}

// reportLoss ends a lost job and calls Config.Finished, at most once.
func (s *session) reportLoss(h *lease, took time.Duration) {
	if !h.markLost() {
		return // the goroutine that settles the job ends it when its report is answered
	}
	defer s.forget(h)
	f := Finished{Job: h.job, Took: took}
	f.Outcome, f.Err = lostAs(context.Cause(h.ctx))
	s.about(h.job).Warn("a job was lost", "type", h.job.Type, "why", f.Err)
	s.finished(f)
}

// lostAs returns the outcome of a job that was lost while its handler ran.
func lostAs(cause error) (Outcome, error) {
	if errors.Is(cause, ErrTimeout) {
		return TimedOut, cause
	}
	return Lost, ErrLeaseLost
}
