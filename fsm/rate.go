package fsm

import (
	"math"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// The rate of a type or key is a token bucket. It is computed in integers, so that every node
// gets the same result: the unit is a millionth of a permit, and rateMilli units are
// added every ms.

const (
	permit   = 1_000_000 // millionths
	burstMax = 1_000_000_000
)

// bucket has the permits of a rate: level at the time at.
type bucket struct{ rateMilli, burst, level, at int64 }

func bucketOf(s *QueueSettings) bucket { return bucket{s.RateMilli, s.Burst, s.Level, s.LevelAtMs} }

// full returns the capacity.
func (b bucket) full() int64 { return min(max(b.burst, 1), burstMax) * permit }

// levelAt returns the content at the time now.
func (b bucket) levelAt(now int64) int64 {
	missing, elapsed := b.full()-b.level, now-b.at
	if elapsed <= 0 || missing <= 0 {
		return b.level
	}
	if elapsed > missing/b.rateMilli {
		return b.full()
	}
	return b.level + elapsed*b.rateMilli
}

// reaches returns the first moment, in ms, at which the content is at least level, which it has not yet.
func (b bucket) reaches(level int64) int64 { return job.Later(b.at, (level-b.level-1)/b.rateMilli+1) }

// fillRate fills the bucket of a type. Without a rate it resets the level to 0.
func fillRate(s *QueueSettings, now int64) {
	s.Level, s.LevelAtMs = 0, 0
	if s.RateMilli > 0 {
		s.Level, s.LevelAtMs = bucketOf(s).full(), now
	}
}

// takePermit takes one permit of the rate of the type, if it has a rate.
func (t *types) takePermit(q *queue) {
	old := q.settings
	if old == nil || old.RateMilli <= 0 {
		return
	}
	s := fsmpb.Clone(old)
	level := bucketOf(s).levelAt(t.meta.NowMs)
	t.arrive(q, int(level/permit-s.Level/permit)) // new permits, for which no timer was set
	s.Level, s.LevelAtMs = level-permit, t.meta.NowMs
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
	return capacity(s.MaxRunning, q.counts[InProgress], bucketOf(s), t.meta.NowMs)
}

// capacity returns how many more jobs may start where running jobs run, with a limit of maxRunning and permits of b.
func capacity(maxRunning int64, running int, b bucket, now int64) int {
	n := int64(math.MaxInt32)
	if maxRunning > 0 {
		n = min(n, max(maxRunning-int64(running), 0))
	}
	if b.rateMilli > 0 {
		n = min(n, b.levelAt(now)/permit)
	}
	return int(n)
}
