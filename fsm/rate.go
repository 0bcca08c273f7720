package fsm

import "math"

// The rate of a type is a token bucket, reckoned in integers so that every node
// gets the same: permits in millionths, of which RateMilli come each ms.

const (
	permit   = 1_000_000 // millionths
	burstMax = 1_000_000_000
)

// full is how much the bucket holds.
func (s *QueueSettings) full() int64 { return min(max(s.Burst, 1), burstMax) * permit }

// level is how much is in the bucket at a time.
func (s *QueueSettings) level(now int64) int64 {
	missing, elapsed := s.full()-s.Level, now-s.LevelAt
	if elapsed <= 0 || missing <= 0 {
		return s.Level
	}
	if elapsed > missing/s.RateMilli {
		return s.full()
	}
	return s.Level + elapsed*s.RateMilli
}

// permitAt is the first moment at which an empty bucket allows a claim again.
func (s *QueueSettings) permitAt() int64 {
	missing := permit - s.Level
	return later(s.LevelAt, (missing-1)/s.RateMilli+1)
}

// fill makes the bucket full, or nothing if there is no rate.
func (s *QueueSettings) fill(now int64) {
	s.Level, s.LevelAt = 0, 0
	if s.RateMilli > 0 {
		s.Level, s.LevelAt = s.full(), now
	}
}

// takePermit takes one permit from the type's rate, if it has one.
func (m *Machine) takePermit(q *queue) {
	old := q.settings
	if old == nil || old.RateMilli <= 0 {
		return
	}
	s := *old
	level := s.level(m.meta.Now)
	m.arrive(q, int(level/permit-s.Level/permit)) // came while there was one, so no timer told
	s.Level, s.LevelAt = level-permit, m.meta.Now
	q.settings = &s
	m.settings.Set(&s)
	m.refreshHead(q)
}

// room is how many more claims the type's limits allow at once.
func (m *Machine) room(q *queue) int {
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
		n = min(n, s.level(m.meta.Now)/permit)
	}
	return int(n)
}
