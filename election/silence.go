package election

import (
	"math"
	"slices"
	"time"

	"osqueue/storage"
	"osqueue/storage/document"
)

// Silence is a candidate's measurement of how long the document's broker has not written.
type Silence struct {
	// For is the time for which the document has had the same version, by the
	// candidate's monotonic clock and only as far as its own reads show it.
	For time.Duration
	// Timeout is the candidate's broker timeout. Of replaces it by TimeoutOf.
	Timeout time.Duration
	// Wait is the time after which the document's broker counts as dead. Of sets it.
	Wait time.Duration
	// Now is the candidate's wall clock. It never decides alone.
	Now time.Time
}

// LegacyTimeout is the least timeout of a document without header: the broker timeout of the legacy system.
const LegacyTimeout = 10 * time.Second

// forever is the wait for a broker that no silence makes dead.
const forever = time.Duration(math.MaxInt64)

// Of returns s with the timeout and the wait that apply to document d. The leader that wrote d
// counts with the same numbers (leader.Term): it refuses writes after Timeout if d names a
// standby, and after Outage otherwise.
func (s Silence) Of(d *document.File, me Candidate) Silence {
	f := d.Fence()
	s.Timeout = TimeoutOf(d, s.Timeout)
	switch {
	case f.Timeout <= 0:
		s.Wait = s.Timeout
	case slices.Contains(f.Standbys, me.Cluster) || me.replaces(f.Members):
		s.Wait = f.Timeout
	case f.Outage <= 0:
		s.Wait = forever
	default:
		s.Wait = f.Outage
	}
	return s
}

// TimeoutOf returns the broker timeout of document d; without one, it is own, or LegacyTimeout if that is
// longer. nil is no document, for which own counts.
func TimeoutOf(d *document.File, own time.Duration) time.Duration {
	switch f := d.Fence(); {
	case f.Timeout > 0:
		return f.Timeout
	case d == nil:
		return own
	}
	return max(own, LegacyTimeout)
}

// replaces reports whether the candidate's own nodes have the names and the addresses of a
// majority of members. Those processes have ended then, and their cluster has no quorum.
func (me *Candidate) replaces(members []document.Member) bool {
	own := 0
	for _, m := range members {
		if m.Address != "" && slices.Contains(me.Fence.Members, m) {
			own++
		}
	}
	return own > len(members)/2
}

// dead reports whether the document's broker counts as dead.
func (s Silence) dead() bool { return s.Remaining() <= 0 }

// Remaining returns for how long the document has to stay the same version yet until its
// broker counts as dead.
func (s Silence) Remaining() time.Duration { return s.Wait - s.For }

// stale reports whether a heartbeat is too old by the wall clock. It is the rule of the
// legacy brokers.
func (s Silence) stale(heartbeatMs int64) bool {
	return !fresh(heartbeatMs, s.Now.UnixMilli(), s.Timeout.Milliseconds())
}

// Watch measures how long the document has had the same version. It does not depend on
// the clock of the document's broker or on the wall clock of this node. An outage of the
// bucket does not look like the death of the broker: the measurement restarts after a
// failed read, and after a pause in which this node did not read. The zero value is ready
// for use. It is not safe for concurrent use.
type Watch struct {
	version storage.Version
	since   time.Time // the end of the first read of this version; zero: count from the next read
	last    time.Time // the end of the last read
}

// Saw records a successful read that began at asked. It returns the time for which the
// document has been unchanged. pauseMax is the longest time between two reads that does
// not restart the measurement.
func (w *Watch) Saw(o Observed, asked time.Time, pauseMax time.Duration) time.Duration {
	now := time.Now()
	interrupted := w.since.IsZero() || o.Version != w.version || asked.Sub(w.last) > pauseMax
	w.last = now
	if interrupted {
		w.version, w.since = o.Version, now
		return 0
	}
	return asked.Sub(w.since)
}

// Missed records that the document could not be read or written: perhaps its broker could
// not write it either.
func (w *Watch) Missed() { w.since = time.Time{} }

// fresh reports whether a heartbeat counts as alive. A heartbeat in the future does.
func fresh(heartbeat, nowMs, timeoutMs int64) bool {
	return heartbeat >= nowMs-timeoutMs
}
