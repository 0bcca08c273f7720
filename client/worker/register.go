package worker

import (
	"context"
	"time"

	"osqueue/client"
	"osqueue/client/internal/sleep"
)

const (
	// reregister is the maximum time between two registrations, also of a worker that calls the
	// cluster all the time: if the cluster declared the worker dead meanwhile, it no longer
	// lists it.
	reregister = time.Minute
	// registerPause is the wait after a registration that failed.
	registerPause = time.Second
)

// keepRegistered registers the worker, and again whenever it has made no call for
// Config.KeepAlive, until ctx ends.
func (s *session) keepRegistered(ctx context.Context) {
	var registered time.Time
	for ctx.Err() == nil {
		now := time.Now()
		due := registerDue(registered, s.heard(), s.cfg.KeepAlive)
		switch {
		case due.After(now):
			sleep.For(ctx, due.Sub(now))
		case s.register(ctx):
			registered = now
		default:
			sleep.For(ctx, registerPause)
		}
	}
}

// registerDue returns the time of the next registration.
func registerDue(registered, seen time.Time, keepAlive time.Duration) time.Time {
	if registered.IsZero() {
		return registered
	}
	due := registered.Add(keepAlive)
	if silent := seen.Add(keepAlive); silent.After(due) {
		due = silent
	}
	if latest := registered.Add(max(reregister, keepAlive)); due.After(latest) {
		due = latest
	}
	return due
}

func (s *session) register(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, max(s.cfg.KeepAlive, registerPause))
	defer cancel()
	err := s.queue.RegisterWorker(ctx, client.WorkerInfo{
		Name:    s.cfg.Name,
		Types:   s.worker.types(),
		Version: s.cfg.Version,
		Address: s.cfg.Address,

		Capacity: uint32(s.cfg.Concurrency),
		Instance: s.instance,
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("registration failed; it will be repeated", "error", err)
	}
	if err == nil {
		s.seen()
	}
	return err == nil
}
