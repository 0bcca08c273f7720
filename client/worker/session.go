package worker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
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

// session is one Run of a worker.
type session struct {
	worker *Worker
	cfg    Config
	queue  Queue
	log    *slog.Logger

	instance string // among the workers of this name

	capacity *capacity
	leases   *leases

	jobs        context.Context // of the handlers; ends with ErrStopping
	stopJobs    context.CancelCauseFunc
	patience    *time.Timer     // ends jobs when the worker has been stopping for long enough
	reports     context.Context // of calls to the cluster; outlives jobs
	stopReports context.CancelFunc

	helpers sync.WaitGroup // keepLeases and keepRegistered
	running sync.WaitGroup // the goroutines of jobs

	logs        *logSender
	completions *batcher[client.Completion]
	failures    *batcher[client.FailedJob]
	releases    *batcher[client.Lease]

	began      time.Time
	lastSeen   atomic.Int64 // ns after began; when the cluster last heard from us
	unreported atomic.Int64
}

// seen records that the cluster has just had a call from this worker.
func (s *session) seen() { s.lastSeen.Store(int64(time.Since(s.began))) }

// heard returns the time of the last call, on the monotonic clock: if the wall clock is set
// back, the worker must not stay silent until the wall clock has caught up.
func (s *session) heard() time.Time { return s.began.Add(time.Duration(s.lastSeen.Load())) }

func (s *session) finished(f Finished) {
	if f.Outcome == Unreported {
		s.unreported.Add(1)
	}
	s.cfg.Finished(f)
}

// about returns the log for lines about a job.
func (s *session) about(job Job) *slog.Logger {
	log := s.log.With("job", job.ID)
	if id := v1.TraceID(job.Headers[v1.HeaderTraceparent]); id != "" {
		log = log.With("trace_id", id)
	}
	return log
}

// newSession prepares a run. Its contexts keep ctx's values, but do not end with ctx: stop ends
// them.
func newSession(ctx context.Context, w *Worker) *session {
	s := &session{
		worker:   w,
		cfg:      w.cfg,
		queue:    w.queue,
		log:      w.cfg.Logger,
		capacity: newCapacity(w.cfg, w.types()),
		leases:   newLeases(),
		began:    time.Now(),

		instance: client.NewInstance(),
	}
	detached := context.WithoutCancel(ctx)
	s.jobs, s.stopJobs = context.WithCancelCause(detached)
	s.reports, s.stopReports = context.WithCancel(detached)
	s.logs = &logSender{s: s, more: make(chan struct{}, 1)}
	s.prepareReports()
	return s
}

// endClaiming releases the waiting jobs. Config.StopTimeout counts from here, also
// while the last claims are released.
func (s *session) endClaiming() {
	s.returnWaiting()
	s.patience = time.AfterFunc(max(s.cfg.StopTimeout, 0), func() { s.stopJobs(ErrStopping) })
}
