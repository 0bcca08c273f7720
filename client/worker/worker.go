package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"osqueue/client"
)

// Worker runs jobs of the types for which it has handlers. Create one with New, add
// handlers, then call Run once.
type Worker struct {
	cfg      Config
	queue    Queue
	handlers map[string]HandlerFunc
	any      HandlerFunc // for types without a handler; nil: such types are not claimed
	around   []Middleware
	started  atomic.Bool
}

// New returns a worker without handlers. It returns an error if cfg is invalid.
func New(queue Queue, cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{cfg: cfg, queue: queue, handlers: make(map[string]HandlerFunc)}, nil
}

// Name returns the name with which the worker claims.
func (w *Worker) Name() string { return w.cfg.Name }

// Handle sets the handler of a job type. It panics if the type is empty or has a
// handler already, or after Run has started. For jobs without a type use HandleAny.
func (w *Worker) Handle(jobType string, fn HandlerFunc) {
	switch {
	case w.started.Load():
		panic("worker: Handle was called after Run")
	case jobType == "" || fn == nil:
		panic("worker: Handle needs a type and a function")
	case w.handlers[jobType] != nil:
		panic(fmt.Sprintf("worker: type %q has a handler already", jobType))
	}
	w.handlers[jobType] = fn
}

// HandleAny sets the handler for jobs whose type has no handler, also for those
// without a type. The worker then claims jobs of every type.
func (w *Worker) HandleAny(fn HandlerFunc) {
	if w.started.Load() || fn == nil || w.any != nil {
		panic("worker: HandleAny was called twice, after Run, or without a function")
	}
	w.any = fn
}

// Use puts middleware around the handlers of all types, also around those that are
// added later. The first one is the outermost: it sees a job first and its outcome
// last. Use panics after Run has started.
func (w *Worker) Use(around ...Middleware) {
	if w.started.Load() || slices.ContainsFunc(around, func(m Middleware) bool { return m == nil }) {
		panic("worker: Use was called after Run, or with a nil middleware")
	}
	w.around = append(w.around, around...)
}

// wrapAll puts the middleware around the handlers.
func (w *Worker) wrapAll() {
	for t, fn := range w.handlers {
		w.handlers[t] = wrap(fn, w.around)
	}
	if w.any != nil {
		w.any = wrap(w.any, w.around)
	}
}

// types returns the types to claim, or none for any type.
func (w *Worker) types() []string {
	if w.any != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(w.handlers))
}

func (w *Worker) handler(jobType string) HandlerFunc {
	if fn := w.handlers[jobType]; fn != nil {
		return fn
	}
	if w.any != nil {
		return w.any
	}
	return func(context.Context, Job) (json.RawMessage, error) {
		return nil, fmt.Errorf("this worker has no handler for type %q", jobType)
	}
}

// The errors of Run.
var (
	// ErrNoHandler means that neither Handle nor HandleAny was called.
	ErrNoHandler = errors.New("the worker has no handler; call Handle first")
	// ErrRunTwice means that Run was called before.
	ErrRunTwice = errors.New("a worker runs only once; make a new one")
	// ErrPerType means that Config.PerType names a type without a handler of its own.
	ErrPerType = errors.New("Config.PerType names a type that has no handler of its own, or is used with HandleAny")
)

func (w *Worker) checkPerType() error {
	for t := range w.cfg.PerType {
		if w.any != nil || w.handlers[t] == nil {
			return fmt.Errorf("%w: %q", ErrPerType, t)
		}
	}
	return nil
}

// Run claims and runs jobs until ctx ends, then stops gracefully: it finishes the
// running jobs within Config.StopTimeout and releases the others. It returns nil if
// every job was reported or released, and an error at once if the cluster refuses
// the claims of this worker.
func (w *Worker) Run(ctx context.Context) error {
	if w.any == nil && len(w.handlers) == 0 {
		return ErrNoHandler
	}
	if err := w.checkPerType(); err != nil {
		return err
	}
	if w.started.Swap(true) {
		return ErrRunTwice
	}
	w.wrapAll()
	s := newSession(ctx, w)
	s.start()
	err := s.claimJobs(ctx)
	return errors.Join(err, s.stop())
}

func (s *session) start() {
	s.helpers.Go(func() { s.keepLeases(s.reports) })
	s.helpers.Go(func() { s.keepRegistered(s.reports) })
	s.helpers.Go(func() { s.logs.run(s.reports) })
}

// stop ends the activities that claimJobs began, in the order in doc.go.
func (s *session) stop() error {
	select {
	case <-s.leases.empty():
	case <-s.jobs.Done():
	}
	s.patience.Stop()
	s.stopJobs(ErrStopping)
	if n := len(s.leases.all()); n > 0 {
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
func (s *session) unfinished() (errs []error) {
	if n := s.unreported.Load(); n > 0 {
		errs = append(errs, fmt.Errorf("%d jobs could not be reported or released; they return to the queue when their leases expire", n))
	}
	if n := len(s.leases.all()); n > 0 {
		errs = append(errs, fmt.Errorf("stopped waiting for %d jobs, because Config.Finished does not return", n))
	}
	return errs
}

// leave removes the registration of the worker, which also releases jobs that could
// not be reported. If it fails, the cluster declares the worker dead later.
func (s *session) leave() {
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
func (s *session) abandon() {
	for _, h := range s.leases.all() {
		if !h.settle() {
			s.running.Go(func() { s.reportLoss(h, time.Since(h.began)) })
			continue
		}
		s.about(h.job).Warn("a handler still runs after its context was cancelled", "type", h.job.Type)
		s.running.Go(func() { s.settleAbandoned(h) })
	}
	if !s.drained(reportGrace) {
		s.stopReports()
		s.drained(finishedGrace)
	}
}

// settleAbandoned settles a job instead of its handler's goroutine.
func (s *session) settleAbandoned(h *lease) {
	defer s.forget(h)
	f := Finished{Job: h.job, Took: time.Since(h.began)}
	s.report(report{outcome: Released, err: ErrStopping}, &f)
	s.finished(f)
}

// drained waits for the last job to leave, for up to d.
func (s *session) drained(d time.Duration) bool {
	select {
	case <-s.leases.empty():
		return true
	case <-time.After(d):
		return false
	}
}
