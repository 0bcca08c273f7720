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

// reign is what a leader remembers of the box. One goroutine uses it.
type reign struct {
	*Box

	taken map[string]fsm.LSN   // by id: in the machine at that LSN, not removed yet
	held  map[string]time.Time // by id: to come again; since when it awaits another job, zero if not
	queue []file               // of held, in the order in which they are looked at again
	probe int                  // of them, to look at in the next round
	alien map[string]struct{}  // names that are left alone and have been logged
	stuck map[string]struct{}  // by id: taken and flushed, and not to be removed; nil: the marks are not read yet
	old   []string             // keys of files that an earlier version has rejected
	quiet time.Time            // since then no file has arrived
}

// file is a job in the box.
type file struct {
	id   string
	size int64
}

// key is where the file is.
func (f file) key() string { return Prefix + f.id + suffix }

func newReign(b *Box) *reign {
	return &reign{
		Box:   b,
		taken: make(map[string]fsm.LSN),
		held:  make(map[string]time.Time),
		probe: b.bounds.probe,
		alien: make(map[string]struct{}),
		quiet: b.cfg.Now(),
	}
}

// round looks into the box once and takes in what it can. It returns how long to
// rest before the next one.
func (r *reign) round(ctx context.Context) (rest time.Duration, err error) {
	if err := r.readMarks(ctx); err != nil {
		return 0, err
	}
	l, err := r.look(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the drop box: %w", err)
	}
	r.unstick(ctx, &l)
	r.moveOld(ctx)
	probes := r.queue[:min(r.probe, len(r.queue))]
	r.queue = slices.Clone(r.queue[len(probes):])
	got, err := r.takeAll(ctx, slices.Concat(probes, l.fresh))
	r.requeue(probes, got)
	err = errors.Join(err, r.settle(ctx))
	if err == nil && got.done > 0 && (l.more || len(r.queue) > 0 && !got.refused) {
		return 0, nil
	}
	return r.rest(&l) * time.Duration(max(1, l.pages)), err
}

// quietPart is the part of the time without a new file that the next rest lasts.
const quietPart = 8

// rest returns the rest after a listing of one page: Interval while files arrive or wait, and
// longer and longer, up to IdleInterval, the longer none has.
func (r *reign) rest(l *look) time.Duration {
	now := r.cfg.Now()
	if len(l.fresh) > 0 || len(r.queue) > 0 {
		r.quiet = now
	}
	return max(r.cfg.Interval, min(now.Sub(r.quiet)/quietPart, r.cfg.IdleInterval))
}

// look is a listing.
type look struct {
	fresh []file          // new ones
	stuck map[string]bool // those of stuck that are still there
	more  bool            // there may be more of them
	pages int             // that it took
}

func (r *reign) look(ctx context.Context) (look, error) {
	var l look
	names, waiting := 0, 0
	room := min(r.bounds.files, r.bounds.held-len(r.held), r.bounds.stuck-len(r.stuck))
	l.stuck, r.old = make(map[string]bool), r.old[:0]
	err := r.cfg.Bucket.List(ctx, Prefix, func(o storage.Info) bool {
		names++
		if isOldRejected(o.Key) {
			if len(r.old) < oldMost {
				r.old = append(r.old, o.Key)
			}
			return true
		}
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

func (r *reign) knows(id string) bool {
	_, taken := r.taken[id]
	_, held := r.held[id]
	return taken || held
}

// alienMax bounds what is remembered, and logged, of names that are left alone.
const alienMax = 100

func (r *reign) leaveAlone(o storage.Info, isJob bool) {
	if _, known := r.alien[o.Key]; known || len(r.alien) >= alienMax {
		return
	}
	r.alien[o.Key] = struct{}{}
	why := "its name is not inbox/<id>.json"
	if isJob {
		why = fmt.Sprintf("it has %d bytes, more than are read", o.Size)
	}
	r.cfg.Log.Warn("a file in the drop box is left alone", "key", fmt.Sprintf("%q", o.Key), "reason", why)
}

// requeue puts the files that were looked at and are still refused behind the others,
// and decides how many come next: more if all were taken, few if any was not.
func (r *reign) requeue(probes []file, got outcome) {
	for _, f := range probes {
		if _, refused := r.held[f.id]; refused {
			r.queue = append(r.queue, f)
		}
	}
	switch {
	case got.refused:
		r.probe = r.bounds.probe
	case len(probes) == r.probe:
		r.probe = min(2*r.probe, r.bounds.files)
	}
}

// hold keeps a file for later.
func (r *reign) hold(f file) {
	if _, known := r.held[f.id]; !known {
		r.held[f.id] = time.Time{}
		r.queue = append(r.queue, f)
	}
}

// awaitsStill reports whether a file may still wait for a job that is not there. The
// first time it may.
func (r *reign) awaitsStill(f file) bool {
	r.hold(f)
	now := r.cfg.Now()
	if r.held[f.id].IsZero() {
		r.held[f.id] = now
	}
	return now.Sub(r.held[f.id]) < r.bounds.patience
}
