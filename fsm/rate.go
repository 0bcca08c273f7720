package fsm

import (
	"math"

	"osqueue/fsm/fsmpb"
)

// The rate of a type is a token bucket. It is computed in integers, so that every node
// gets the same result: the unit is a millionth of a permit, and RateMilli units are
// added every ms.

const (
	permit   = 1_000_000 // millionths
	burstMax = 1_000_000_000
)

// fullRate returns the capacity of the bucket.
func fullRate(s *QueueSettings) int64 { return min(max(s.Burst, 1), burstMax) * permit }

// rateLevel returns the content of the bucket at the time now.
func rateLevel(s *QueueSettings, now int64) int64 {
	missing, elapsed := fullRate(s)-s.Level, now-s.LevelAtMs
	if elapsed <= 0 || missing <= 0 {
		return s.Level
	}
	if elapsed > missing/s.RateMilli {
		return fullRate(s)
	}
	return s.Level + elapsed*s.RateMilli
}

// nextPermit returns the first moment, in ms, at which the bucket has a permit again.
func nextPermit(s *QueueSettings) int64 {
	missing := permit - s.Level
	return later(s.LevelAtMs, (missing-1)/s.RateMilli+1)
}

// fillRate fills the bucket. Without a rate it resets the level to 0.
func fillRate(s *QueueSettings, now int64) {
	s.Level, s.LevelAtMs = 0, 0
	if s.RateMilli > 0 {
		s.Level, s.LevelAtMs = fullRate(s), now
	}
}

// takePermit takes one permit of the rate of the type, if it has a rate.
func (t *types) takePermit(q *queue) {
	old := q.settings
	if old == nil || old.RateMilli <= 0 {
		return
	}
	s := fsmpb.Clone(old)
	level := rateLevel(s, t.meta.Now)
	t.arrive(q, int(level/permit-s.Level/permit)) // new permits, for which no timer was set
	s.Level, s.LevelAtMs = level-permit, t.meta.Now
	q.settings = s
	t.settings.Set(s)
	t.refreshHead(q)
}

// claimCapacity returns how many more claims the limits of the type allow now.
func (t *types) claimCapacity(q *queue) int {
	s := q.settings
	if s == nil {
		return math.MaxInt32
	}
	if s.Paused {
		return 0
	}
	n := int64(math.MaxInt32)
	if s.MaxRunning > 0 {
		n = min(n, max(s.MaxRunning-int64(q.counts[InProgress]), 0))
	}
	if s.RateMilli > 0 {
		n = min(n, rateLevel(s, t.meta.Now)/permit)
	}
	return int(n)
}
