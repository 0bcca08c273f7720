package election

import (
	"time"

	"osqueue/storage"
)

// Silence is what a candidate knows about how long the document's broker has
// written nothing.
type Silence struct {
	// For is how long the document has stayed the same version, by the
	// candidate's monotonic clock and only as far as its own reads show it.
	For time.Duration
	// Timeout is the broker timeout: how long a broker may be silent.
	Timeout time.Duration
	// Promised is the time in which the document promises the next heartbeat
	// (queuefile.Document.Promise). The broker may be silent for so much longer.
	Promised time.Duration
	// Now is the candidate's wall clock. It never decides alone.
	Now time.Time
}

// dead reports whether the document's broker counts as dead.
func (s Silence) dead() bool { return s.Remaining() <= 0 }

// Remaining returns for how long the document has to stay the same version yet until its
// broker counts as dead.
func (s Silence) Remaining() time.Duration { return s.Timeout + s.Promised - s.For }

// stale reports whether the wall clock says that a heartbeat is too old. It is the
// rule of the legacy brokers.
func (s Silence) stale(heartbeatMs int64) bool {
	return !fresh(heartbeatMs, s.Now.UnixMilli(), s.Timeout.Milliseconds())
}

// Watch measures how long the document has stayed the same version. The clock of the
// document's broker and the wall clock of this node do not matter to it, and an outage
// of the bucket does not look like the death of the broker: the count begins again
// after a failed read, and after a pause in which this node did not read. The zero
// value has seen nothing. It is used by one goroutine.
type Watch struct {
	version storage.Version
	since   time.Time // when the first read of this version had ended; zero: count from the next read
	last    time.Time // when the last read had ended
}

// Saw takes in a successful read that began at asked and returns for how long the
// document has been unchanged. pauseMax is the longest time between two reads that does
// not interrupt the count.
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

// Missed takes in that the document could not be read or written: its broker could
// perhaps not write it either.
func (w *Watch) Missed() { w.since = time.Time{} }
