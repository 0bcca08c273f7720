package cluster

import (
	"time"

	"osqueue/election"
	"osqueue/storage"
)

// A heartbeat that lies ahead counts as alive (package election): whose clock is right
// cannot be known. But a clock that was ahead for a moment while its node took over
// leaves a heartbeat behind that lies ahead for as long as it had jumped, and with all
// of its nodes lost nobody could follow it until then. So a standby also listens: a
// broker that lives changes its document several times in a broker timeout, and one
// that does not, for so long by the standby's own monotonic clock, is dead.

// silence is how long a document has been as it is. It belongs to one goroutine.
type silence struct {
	version storage.Version
	since   time.Time // when this version had been read first
}

// judge returns the time, in ms, by which the heartbeat of a document that was read is
// to be judged: now, or, if the heartbeat lies ahead of that and has been silent for
// the timeout, one at which it is stale. asked is when the read had begun; now is by
// the clock.
func (s *silence) judge(seen election.Observed, asked time.Time, now int64, timeout time.Duration) int64 {
	if seen.Doc == nil || seen.Version != s.version {
		s.version, s.since = seen.Version, time.Now()
		return now
	}
	if seen.Doc.BrokerHeartbeat <= now || asked.Sub(s.since) < timeout {
		return now
	}
	return seen.Doc.BrokerHeartbeat + timeout.Milliseconds() + 1
}
