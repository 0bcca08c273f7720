package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"osqueue/client"
)

// After the handlers' contexts have ended:
const (
	// handlerGrace is how long handlers have to return. It covers the two seconds
	// between a command's SIGTERM and SIGKILL.
	handlerGrace = 4 * time.Second
	// reportGrace is how long the last reports may take.
	reportGrace = 5 * time.Second
	// finishedGrace is how long Config.Finished may take to return.
	finishedGrace = time.Second
	// leaveTimeout bounds the removal of the registration.
	leaveTimeout = 2 * time.Second
)

// newShift prepares a run. Its contexts keep ctx's values, but do not end with ctx: stop ends
// them.
func newShift(ctx context.Context, w *Worker) *shift {
	s := &shift{
		worker: w,
		cfg:    w.cfg,
		queue:  w.queue,
		log:    w.cfg.Logger,
		room:   newRoom(w.cfg, w.types()),
		holds:  newHolds(),
		began:  time.Now(),

		instance: client.NewInstance(),
	}
	detached := context.WithoutCancel(ctx)
	s.jobs, s.stopJobs = context.WithCancelCause(detached)
	s.reports, s.stopReports = context.WithCancel(detached)
	s.together, _ = w.queue.(CompleterClaimer)
	s.logs = newLogSender(s)
	s.prepareReports()
	return s
}

func (s *shift) start() {
	s.helpers.Go(func() { s.keepLeases(s.reports) })
	s.helpers.Go(func() { s.keepRegistered(s.reports) })
	s.helpers.Go(func() { s.logs.run(s.reports) })
}

// endClaiming releases the waiting jobs. Config.StopTimeout counts from here, also
// while the last claims are released.
func (s *shift) endClaiming() {
	s.returnWaiting()
	s.patience = time.AfterFunc(max(s.cfg.StopTimeout, 0), func() { s.stopJobs(ErrStopping) })
}

// stop ends the activities that claimJobs began, in the order in doc.go.
func (s *shift) stop() error {
	select {
	case <-s.holds.empty():
	case <-s.jobs.Done():
	}
	s.patience.Stop()
	s.stopJobs(ErrStopping)
	if n := len(s.holds.all()); n > 0 {
		s.log.Info("cancelling the running jobs to release them", "jobs", n)
	}
	if s.drained(handlerGrace) {
		s.running.Wait()
	} else {
		s.abandon()
	}
	s.leave()
	return errors.Join(s.unfinished()...)
}

// unfinished returns errors for the jobs that stop could not end.
func (s *shift) unfinished() (errs []error) {
	if n := s.unreported.Load(); n > 0 {
		errs = append(errs, fmt.Errorf("%d jobs could not be reported or released; they return to the queue when their leases expire", n))
	}
	if n := len(s.holds.all()); n > 0 {
		errs = append(errs, fmt.Errorf("stopped waiting for %d jobs, because Config.Finished does not return", n))
	}
	return errs
}

// leave removes the registration of the worker, which also releases jobs that could
// not be reported. If it fails, the cluster declares the worker dead later.
func (s *shift) leave() {
	s.stopReports()
	s.helpers.Wait() // or a registration might follow
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.jobs), leaveTimeout)
	defer cancel()
	if err := s.queue.RemoveInstance(ctx, s.cfg.Name, s.instance); err != nil && !client.IsNotFound(err) {
		s.log.Debug("cannot deregister the worker", "error", err)
	}
}

// abandon releases the jobs whose handlers do not return, and cancels the reports
// that do not succeed.
func (s *shift) abandon() {
	for _, h := range s.holds.all() {
		if !h.settle() {
			s.running.Go(func() { s.tellLost(h, time.Since(h.began)) })
			continue
		}
		s.about(h.job).Warn("a handler still runs after its context was cancelled", "type", h.job.Type)
		s.running.Go(func() { s.seize(h) })
	}
	if !s.drained(reportGrace) {
		s.stopReports()
		s.drained(finishedGrace)
	}
}

// seize settles a job instead of its handler's goroutine.
func (s *shift) seize(h *hold) {
	defer s.letGo(h)
	f := Finished{Job: h.job, Took: time.Since(h.began)}
	s.report(report{outcome: Released, err: ErrStopping}, &f)
	s.finished(f)
}

// drained waits for the last job to leave, for up to d.
func (s *shift) drained(d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-s.holds.empty():
		return true
	case <-timer.C:
		return false
	}
}
