package crontab

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Schedule is a parsed spec. The zero Schedule has no times.
type Schedule struct {
	every int64 // ms; 0: by clock
	clock *clock
	zone  *time.Location

	start, end int64 // ms; 0: no bound
}

// Within returns the schedule with the times of s from start on and before end; 0 is no bound.
func (s *Schedule) Within(start, end int64) *Schedule {
	c := *s
	c.start, c.end = start, end
	return &c
}

// timeMax is the latest supported time, in the year 9999.
const timeMax = 253_402_300_799_000

// Next returns the first time after a moment. It returns 0 if there is none within five
// years of the moment, or of the schedule's start if that is later. A moment before 1970 counts as 1970.
func (s *Schedule) Next(afterMs int64) int64 {
	next := s.nextOfSpec(max(afterMs, max(s.start, 1)-1))
	if s.end != 0 && next >= s.end {
		return 0
	}
	return next
}

// nextOfSpec is Next without bounds.
func (s *Schedule) nextOfSpec(afterMs int64) int64 {
	switch {
	case afterMs >= timeMax:
		return 0
	case s.every > 0:
		return (afterMs/s.every + 1) * s.every
	case s.clock == nil:
		return 0
	}
	return s.nextByClock(afterMs/1000+1) * 1000
}

// Bounds of the search of Next: the number of seconds, and the number of changes of the
// zone's clocks, which is far above that of any zone in that time.
const (
	aheadMax  = 5 * 366 * 24 * 3600
	shiftsMax = 100
)

// nextByClock returns the first time that is not before the second from, or 0. Between two
// changes of a zone, its clocks show the time in UTC plus an offset, so nextByClock
// searches each such stretch by itself.
func (s *Schedule) nextByClock(from int64) int64 {
	limit := from + aheadMax
	for range shiftsMax {
		st := s.stretchAt(from)
		if from == st.start && s.catchesUp(st) {
			return from
		}
		shows := from + st.offset
		if back := st.shown - (st.start + st.offset); !s.clock.wild && back <= backMax {
			shows = max(shows, st.shown)
		}
		next := s.clock.next(shows)
		if next == 0 {
			return 0
		}
		if at := next - st.offset; at < st.end {
			return at
		}
		if from = st.end; from > limit {
			return 0
		}
	}
	return 0
}

// The bounds, in seconds, up to which a change of the clocks is one that cron follows: fixed
// times run at once that a change forward of less than forwardEnd skips, and do not run again
// after a change back of at most backMax. After any other change only the new time counts.
const (
	forwardEnd = 3 * 3600
	backMax    = 3*3600 + 60
)

// catchesUp reports whether the schedule has a time at the beginning of st because the
// change of the clocks skipped times.
func (s *Schedule) catchesUp(st stretch) bool {
	skipped := st.skipped()
	if s.clock.wild || skipped <= 0 || skipped >= forwardEnd {
		return false
	}
	first := s.clock.next(st.shown)
	return first != 0 && first < st.shown+skipped
}

// lost returns the number of times, at most MissedMax+1, without a run of their own because
// of the change of the clocks at the beginning of st. A schedule of every hour loses none.
func (s *Schedule) lost(st stretch) (n uint64) {
	skipped := st.skipped()
	if skipped <= 0 || s.clock.hour == allHours {
		return 0
	}
	end := st.shown + skipped
	catches := s.catchesUp(st)
	if catches {
		end++ // with the time after the change, which is the one of its run
	}
	for t := s.clock.next(st.shown); t != 0 && t < end && n <= MissedMax; t = s.clock.next(t + 1) {
		n++
	}
	if catches {
		n--
	}
	return n
}

// stretch is a time during which a zone's offset does not change. All fields are
// seconds.
type stretch struct {
	offset int64
	start  int64 // 0: it has no start
	end    int64 // the first moment after it
	shown  int64 // local wall time just before the change of the offset at start
}

// skipped returns by how much the clocks went forward when st began. If they went back, it
// is negative.
func (st stretch) skipped() int64 {
	if st.start == 0 {
		return 0
	}
	return st.start + st.offset - st.shown
}

func (s *Schedule) stretchAt(moment int64) stretch {
	t := time.Unix(moment, 0).In(s.zone)
	_, offset := t.Zone()
	st := stretch{offset: int64(offset), end: timeMax}
	start, end := t.ZoneBounds()
	if !end.IsZero() {
		st.end = end.Unix()
	}
	if st.end <= moment {
		// Package time assumes years of 365 days where it computes the bounds by a rule,
		// and so errs on the last day of a leap year.
		st.end = moment + 3600
	}
	if !start.IsZero() && start.Unix() > 0 {
		st.start = start.Unix()
		_, before := start.Add(-time.Second).Zone()
		st.shown = st.start + int64(before)
	}
	return st
}

// MissedMax is the maximal number of times that Latest counts one by one.
const MissedMax = 1000

// Latest returns the latest time that is not after now, and the number of times that have
// no run of their own: those from due on before it, and those after the moment since that
// changes of the clocks left out. due must be a time of the schedule that is not after now.
// For specs other than "@every", Latest counts at most MissedMax times of each kind: missed
// then means "at least". The latest time is exact in every case.
func (s *Schedule) Latest(since, due, now int64) (at int64, missed uint64) {
	at = due
	first := s.Next(due)
	late := first != 0 && first <= now
	if s.every > 0 {
		if late {
			if s.end != 0 {
				now = min(now, s.end-1)
			}
			at = now / s.every * s.every
		}
		return at, uint64((at - due + s.every - 1) / s.every)
	}
	if late {
		at = s.lastUntil(due, now)
	}
	for t := due; t != 0 && t < at && missed < MissedMax; t = s.Next(t) {
		missed++
	}
	return at, missed + s.lostBetween(max(since, s.start), at)
}

// lostBetween returns the number of times that the changes of the clocks after the first
// moment, and not after the second one, left out.
func (s *Schedule) lostBetween(since, until int64) (n uint64) {
	st := s.stretchAt(until / 1000)
	for i := 0; i < shiftsMax && st.start*1000 > since && n < MissedMax; i++ {
		n += s.lost(st)
		st = s.stretchAt(st.start - 1)
	}
	return min(n, MissedMax)
}

// lastUntil returns the last time in (from, now]. There must be one. It bisects: "a time
// comes after a moment and not after now" is true up to the last time and false from
// there on.
func (s *Schedule) lastUntil(from, now int64) int64 {
	low, high := from, now // not after the last one; not before it
	for high-low > 1 {
		mid := low + (high-low)/2
		if next := s.Next(mid); next != 0 && next <= now {
			low = next
		} else {
			high = mid
		}
	}
	if next := s.Next(low); next != 0 && next <= now {
		return next
	}
	return low
}

// NewID returns a new id for the job that a schedule enqueues for the time at, in ms since 1970. It
// is a UUID of version 8 (RFC 9562) whose first 48 bits are the time. A job therefore knows its
// scheduled time in every attempt.
func NewID(at int64) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x80
	return id.String(), nil
}

// TimeOfID returns the time in an id of NewID. It returns false for any other id, such as that
// of a job that was triggered by hand.
func TimeOfID(id string) (at int64, ok bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 {
		return 0, false
	}
	var ms [8]byte
	copy(ms[2:], u[:6])
	return int64(binary.BigEndian.Uint64(ms[:])), true
}
