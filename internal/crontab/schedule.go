package crontab

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is a spec that has been read. The zero Schedule has no times.
type Schedule struct {
	every int64 // ms; 0: by clock
	clock *cron.SpecSchedule
	zone  *time.Location
}

// timeMax is the last moment that is reckoned with, in the year 9999.
const timeMax = 253_402_300_799_000

// Next is the first time after a moment. It is 0 if there is none within five
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

// The farthest that Next looks: so many seconds, and so many changes of the
// zone's clocks, which is far more than any zone has in that time.
const (
	aheadMax  = 5 * 366 * 24 * 3600
	shiftsMax = 100
)

// nextByClock is the first time not before a second since 1970, or 0. The
// parser's own search for it does not end in zones that once left out a day.
// But between two changes of a zone clocks run evenly, as in UTC: what they show
// is the moment plus an offset. So each stretch is searched by itself.
func (s *Schedule) nextByClock(from int64) int64 {
	shown := int64(0) // what the clocks have shown before
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

// anyHour is how the parser marks a field that is "*" or "?".
const anyHour = 1 << 63

// stretch is a time during which a zone's offset does not change. All are
// seconds.
type stretch struct {
	offset int64
	end    int64 // the first moment behind it
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
		// Package time takes every year for 365 days where it reckons the
		// bounds by a rule, and errs on the last day of a leap year.
		st.end = moment + 3600
	}
	if !start.IsZero() {
		_, before := start.Add(-time.Second).Zone()
		st.shown = start.Unix() + int64(before)
	}
	return st
}

// MissedMax is the most times that Latest counts one by one.
const MissedMax = 1000

// Latest is the latest time that has come by now, counting from due, which is
// a time of the schedule and has come; and how many there were from due on
// before it. Of specs other than "@every" no more than MissedMax are counted:
// then missed means "at least". The latest time is exact in any case.
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

// lastUntil is the last time in (from, now], in which there is one. Whether a
// time comes after a moment and not after now is true up to the last one and
// false from there on, which bisection finds.
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
