package crontab

import (
	"math/bits"
	"time"
)

// clock is the fields of a spec: a bit for each value of a field.
type clock struct {
	second, minute, hour, day, month, weekday uint64

	both bool // day of month or day of week begins with "*": a day must be in both
	wild bool // second, minute or hour begins with "*"
}

const (
	dayLength = 24 * 3600
	allHours  = 1<<24 - 1
)

// next returns the first time that is not before from and that the fields name, or 0 if
// there is none in aheadMax seconds. Both are seconds of a clock that is never changed.
func (c *clock) next(from int64) int64 {
	for midnight := from - from%dayLength; midnight <= from+aheadMax; midnight += dayLength {
		if !c.onDay(midnight) {
			continue
		}
		if at, ok := c.inDay(max(from-midnight, 0)); ok {
			return midnight + at
		}
	}
	return 0
}

func (c *clock) onDay(midnight int64) bool {
	t := time.Unix(midnight, 0).UTC()
	if c.month&(1<<t.Month()) == 0 {
		return false
	}
	day, weekday := c.day&(1<<t.Day()) != 0, c.weekday&(1<<t.Weekday()) != 0
	if c.both {
		return day && weekday
	}
	return day || weekday
}

// inDay returns the first time of a day that is not before from, in seconds since its
// midnight.
func (c *clock) inDay(from int64) (int64, bool) {
	h, m, s := from/3600, from/60%60, from%60
	for ; h < 24; h, m, s = h+1, 0, 0 {
		if c.hour&(1<<h) == 0 {
			continue
		}
		for ; m < 60; m, s = m+1, 0 {
			if c.minute&(1<<m) == 0 {
				continue
			}
			if left := c.second >> s; left != 0 {
				return h*3600 + m*60 + s + int64(bits.TrailingZeros64(left)), true
			}
		}
	}
	return 0, false
}
