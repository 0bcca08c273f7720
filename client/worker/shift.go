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

// shift is one Run of a worker.
type shift struct {
	worker *Worker
	cfg    Config
	queue  Queue
	log    *slog.Logger

	instance string // among the workers of this name

	room  *room
	holds *holds

	jobs        context.Context // of the handlers; ends with ErrStopping
	stopJobs    context.CancelCauseFunc
	patience    *time.Timer     // ends jobs when the worker has been stopping for long enough
	reports     context.Context // of calls to the cluster; outlives jobs
	stopReports context.CancelFunc

	helpers sync.WaitGroup // keepLeases and keepRegistered
	running sync.WaitGroup // the goroutines of jobs

	logs        *logSender
	together    CompleterClaimer // nil: completions carry no claim
	completions *batcher[client.Completion]
	failures    *batcher[client.FailedJob]
	releases    *batcher[client.Lease]

	began      time.Time
	lastSeen   atomic.Int64 // ns after began; when the cluster last heard from us
	unreported atomic.Int64
}

// seen records that the cluster has just had a call from this worker.
func (s *shift) seen() { s.lastSeen.Store(int64(time.Since(s.began))) }

// heard returns the time of the last call, on the monotonic clock: if the wall clock is set
// back, the worker must not stay silent until the wall clock has caught up.
func (s *shift) heard() time.Time { return s.began.Add(time.Duration(s.lastSeen.Load())) }

func (s *shift) finished(f Finished) {
	if f.Outcome == Unreported {
		s.unreported.Add(1)
	}
	s.cfg.Finished(f)
}

// about returns the log for lines about a job.
func (s *shift) about(job Job) *slog.Logger {
	log := s.log.With("job", job.ID)
	if id := v1.TraceID(job.Headers[v1.HeaderTraceparent]); id != "" {
		log = log.With("trace_id", id)
	}
	return log
}
