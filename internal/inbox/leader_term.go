package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
)

// leaderTerm is the memory of the inbox during one leader term. One goroutine uses it.
type leaderTerm struct {
	*Box
	queue Queue

	taken map[string]fsm.LSN   // by id: in the machine at that LSN, not removed yet
	held  map[string]time.Time // by id: to be tried again; the time since which it waits for another job, zero if it does not
	retry []file               // the files of held, in the order of the next attempts
	probe int                  // number of files of retry to try in the next round
	alien map[string]struct{}  // ignored names that have been logged
	stuck map[string]struct{}  // by id: taken and flushed, but the removal failed; nil: the marks are not read yet
	quiet time.Time            // no file has arrived since then
}

// file is the file of a job in the inbox.
type file struct {
	id   string
	size int64
}

// key returns the key of the file.
func (f file) key() string { return Prefix + f.id + suffix }

func newLeaderTerm(b *Box, queue Queue) *leaderTerm {
	return &leaderTerm{
		Box:   b,
		queue: queue,
		taken: make(map[string]fsm.LSN),
		held:  make(map[string]time.Time),
		probe: b.bounds.probe,
		alien: make(map[string]struct{}),
		quiet: b.cfg.Now(),
	}
}

// round lists the inbox once and takes the files that it can. It returns the rest before
// the next round.
func (r *leaderTerm) round(ctx context.Context) (rest time.Duration, err error) {
	if err := r.readMarks(ctx); err != nil {
		return 0, err
	}
	l, err := r.look(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the inbox: %w", err)
	}
	r.unstick(ctx, &l)
	probes := r.retry[:min(r.probe, len(r.retry))]
	r.retry = slices.Clone(r.retry[len(probes):])
	got, err := r.takeAll(ctx, slices.Concat(probes, l.fresh))
	r.requeue(probes, got)
	err = errors.Join(err, r.settle(ctx))
	if err == nil && got.done > 0 && (l.more || len(r.retry) > 0 && !got.refused) {
		return 0, nil
	}
	return r.rest(&l) * time.Duration(max(1, l.pages)), err
}

// quietPart is the divisor of the time without a new file that gives the next rest.
const quietPart = 8

// rest returns the rest after a listing of one page: Interval while files arrive or wait,
// then a growing time, up to IdleInterval.
func (r *leaderTerm) rest(l *look) time.Duration {
	now := r.cfg.Now()
	if len(l.fresh) > 0 || len(r.retry) > 0 {
		r.quiet = now
	}
	return max(r.cfg.Interval, min(now.Sub(r.quiet)/quietPart, r.cfg.IdleInterval))
}

// look is the result of a listing.
type look struct {
	fresh []file          // new files
	stuck map[string]bool // the files of stuck that still exist
	more  bool            // the listing stopped early; there may be more files
	pages int             // number of pages of the listing
}

func (r *leaderTerm) look(ctx context.Context) (look, error) {
	var l look
	names, waiting := 0, 0
	room := min(r.bounds.files, r.bounds.held-len(r.held), r.bounds.stuck-len(r.stuck))
	l.stuck = make(map[string]bool)
	err := r.cfg.Bucket.List(ctx, Prefix, func(o storage.Info) bool {
		names++
		id, ok := idOf(o.Key)
		if !ok || o.Size > r.bounds.moved {
			r.leaveAlone(o, ok)
			return true
		}
		waiting++
		if _, stuck := r.stuck[id]; stuck {
			l.stuck[id] = true
			return true
		}
		if r.knows(id) {
			return true
		}
		if len(l.fresh) >= room {
			l.more = true
			return false
		}
		l.fresh = append(l.fresh, file{id: id, size: o.Size})
		return true
	})
	l.pages = (names + r.bounds.page - 1) / r.bounds.page
	if err == nil {
		r.count(func(s *Stats) { s.Waiting = waiting })
	}
	return l, err
}

func (r *leaderTerm) knows(id string) bool {
	_, taken := r.taken[id]
	_, held := r.held[id]
	return taken || held
}

// alienMax bounds the number of ignored names that are remembered and logged.
const alienMax = 100

func (r *leaderTerm) leaveAlone(o storage.Info, isJob bool) {
	if _, known := r.alien[o.Key]; known || len(r.alien) >= alienMax {
		return
	}
	r.alien[o.Key] = struct{}{}
	why := "its name is not inbox/<id>.json"
	if isJob {
		why = fmt.Sprintf("the file has %d bytes; at most %d are allowed", o.Size, r.bounds.moved)
	}
	r.cfg.Log.Warn("ignoring a file in the inbox", "key", fmt.Sprintf("%q", o.Key), "reason", why)
}

// requeue appends the tried files that are still refused to retry, and sets the number of
// files for the next round: it doubles if none was refused, and returns to the initial
// number otherwise.
func (r *leaderTerm) requeue(probes []file, got outcome) {
	for _, f := range probes {
		if _, refused := r.held[f.id]; refused {
			r.retry = append(r.retry, f)
		}
	}
	switch {
	case got.refused:
		r.probe = r.bounds.probe
	case len(probes) == r.probe:
		r.probe = min(2*r.probe, r.bounds.files)
	}
}

// hold keeps a file for a later round.
func (r *leaderTerm) hold(f file) {
	if _, known := r.held[f.id]; !known {
		r.held[f.id] = time.Time{}
		r.retry = append(r.retry, f)
	}
}

// awaitsStill reports whether a file may still wait for a missing job. The patience starts
// with the first call.
func (r *leaderTerm) awaitsStill(f file) bool {
	r.hold(f)
	now := r.cfg.Now()
	if r.held[f.id].IsZero() {
		r.held[f.id] = now
	}
	return now.Sub(r.held[f.id]) < r.bounds.patience
}
