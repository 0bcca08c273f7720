package worker

import (
	"context"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// beatPause is the minimum time between two heartbeat calls after the first one failed. The
// queue has already repeated the failed call.
const beatPause = 500 * time.Millisecond

// leastPatience is the minimum time for a heartbeat call, however short one lease is, because
// the call also extends the other leases.
const leastPatience = 500 * time.Millisecond

// keepLeases extends the leases of all jobs of the worker, until ctx ends.
func (s *session) keepLeases(ctx context.Context) {
	var earliest time.Time // after a failure
	for ctx.Err() == nil {
		list, due, shortest := s.leases.renewable()
		if due.Before(earliest) {
			due = earliest
		}
		switch {
		case len(list) == 0:
			s.leases.idle(ctx, time.Time{})
		case due.After(time.Now()):
			s.leases.idle(ctx, due)
		case !s.renewAll(ctx, list, max(shortest/3, leastPatience)):
			earliest = time.Now().Add(beatPause)
		}
	}
}

// renewAll extends the leases of list with as few heartbeats as possible. It returns false if
// one of them got no answer within patience.
func (s *session) renewAll(ctx context.Context, list []*lease, patience time.Duration) bool {
	for len(list) > 0 {
		named := renewals(list)
		if !s.renew(ctx, list[:len(named)], named, patience) {
			return false
		}
		list = list[len(named):]
	}
	return true
}

// renew sends one heartbeat for all of list; named are their leases. If the cluster refuses the
// heartbeat, because its limit for requests may be lower than usual, the halves are sent
// separately.
func (s *session) renew(ctx context.Context, list []*lease, named []client.Lease, patience time.Duration) bool {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent := time.Now()
	beats, err := s.queue.Heartbeat(limited, s.cfg.Name, named)
	switch {
	case refused(err) && len(list) > 1:
		restoreProgress(list, named)
		s.log.Debug("a heartbeat was refused; sending it in parts", "jobs", len(list), "error", err)
		half := len(list) / 2
		first := s.renewAll(ctx, list[:half], patience)
		return s.renewAll(ctx, list[half:], patience) && first
	case refused(err):
		s.about(list[0].job).Warn("cannot renew a lease", "error", err)
		list[0].answered(sent, false) // the next heartbeat goes without the progress, which may be at fault
		return true
	case err != nil:
		restoreProgress(list, named)
		s.log.Warn("heartbeat failed", "jobs", len(list), "error", err)
		return false
	}
	s.seen()
	if len(beats) != len(list) {
		s.log.Error("heartbeat with a wrong number of answers", "jobs", len(list), "answers", len(beats))
		return false
	}
	for i, b := range beats {
		s.noteBeat(list[i], b, sent)
	}
	return true
}

func (s *session) noteBeat(h *lease, b client.Beat, sent time.Time) {
	h.answered(sent, b.Tag == "")
	switch {
	case b.Tag == "" && b.Cancel:
		h.cancelled()
	case b.Tag == "":
	case b.Tag == v1.TagTimedOut:
		h.lose(ErrTimeout)
		s.about(h.job).Debug("the attempt exceeded its timeout")
	case client.LostLease(b.Tag):
		h.lose(ErrLeaseLost)
		s.about(h.job).Debug("the lease has expired", "why", b.Tag)
	default:
		s.about(h.job).Warn("a lease was not renewed", "why", b.Tag)
	}
}

// sendProgress sends a heartbeat for one job to report its progress.
func (s *session) sendProgress(ctx context.Context, h *lease, p client.Progress) error {
	lease := h.job.Lease()
	lease.Progress = &p
	sent := time.Now()
	beats, err := s.queue.Heartbeat(ctx, s.cfg.Name, []client.Lease{lease})
	if err != nil {
		return err
	}
	s.seen()
	for _, b := range beats {
		s.noteBeat(h, b, sent)
	}
	return nil
}
