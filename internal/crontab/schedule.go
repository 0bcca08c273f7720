package crontab

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is a parsed spec. The zero Schedule has no times.
type Schedule struct {
	every int64 // ms; 0: by clock
	clock *cron.SpecSchedule
	zone  *time.Location
}

// timeMax is the latest supported time, in the year 9999.
const timeMax = 253_402_300_799_000

// Next returns the first time after a moment. It returns 0 if there is none within five
// years. A moment before 1970 counts as 1970.
func (s *Schedule) Next(afterMs int64) int64 {
	afterMs = max(afterMs, 0)
	if afterMs >= timeMax {
		return 0
	}
	if s.every > 0 {
		return (afterMs/s.every + 1) * s.every
	}
	if s.clock == nil {
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

// nextByClock returns the first time that is not before the second from, or 0. The
// parser's own search does not end in zones that once left out a day. Between two
// changes of a zone, its clocks show the time in UTC plus an offset, so nextByClock
// searches each such stretch by itself.
func (s *Schedule) nextByClock(from int64) int64 {
	shown := int64(0) // the clocks' last time before the stretch
	limit := from + aheadMax
	for range shiftsMax {
		st := s.stretchAt(from)
		shown = max(shown, st.shown)
		clock := from + st.offset
		if s.clock.Hour&anyHour == 0 {
			clock = max(clock, shown)
		}
		next := s.clock.Next(time.Unix(clock-1, 0).UTC())
		if next.IsZero() {
			return 0
		}
		if at := next.Unix() - st.offset; at < st.end {
			return at
		}
		if from = st.end; from > limit {
			return 0
		}
		shown = st.end + st.offset
	}
	return 0
}

// anyHour is the parser's mark of a field that is "*" or "?".
const anyHour = 1 << 63

// stretch is a time during which a zone's offset does not change. All fields are
// seconds.
type stretch struct {
	offset int64
	end    int64 // the first moment after it
	shown  int64 // by the clocks when it began, just before they were changed
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
	if !start.IsZero() {
		_, before := start.Add(-time.Second).Zone()
		st.shown = start.Unix() + int64(before)
	}
	return st
}

// MissedMax is the maximal number of times that Latest counts one by one.
const MissedMax = 1000

// Latest returns the latest time that is not after now, and the number of times from due
// on before it. due must be a time of the schedule that is not after now. For specs
// other than "@every", Latest counts at most MissedMax times: missed then means "at
// least". The latest time is exact in every case.
func (s *Schedule) Latest(due, now int64) (at int64, missed uint64) {
	if first := s.Next(due); first == 0 || first > now {
		return due, 0
	}
	if s.every > 0 {
		at = now / s.every * s.every
		return at, uint64((at - due + s.every - 1) / s.every)
	}
	at = s.lastUntil(due, now)
	for t := due; t != 0 && t < at && missed < MissedMax; t = s.Next(t) {
		missed++
	}
	return at, missed
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
