package flush

import (
	"math"
	"time"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// Config sets the pace of the flusher and the bounds of its objects.
type Config struct {
	Interval        time.Duration // minimum time between the starts of two writes; there is also a pause after each
	UrgentInterval  time.Duration // the same, while a request waits for the bucket; 0: a write begins soon after the end of the last one
	Heartbeat       time.Duration // maximum time between two writes
	ConflictBackoff time.Duration // pause after the n-th conflict is n times this
	ConflictRetries int           // consecutive conflicts before the flusher waits for the next round
	WriteTimeout    time.Duration // of one write, including the settling of its outcome
	Bandwidth       int           // average bytes per second of writes; 0: no limit
	CountObjects    bool          // each object counts as a write and delays the next one by an interval

	// Flushed, if given, is called after each write of the document, with its start.
	Flushed func(began time.Time, w Written)

	Window time.Duration // how far back states are kept

	ViewMax       int   // bytes of the jobs in the document; three quarters of it for their return
	TailMax       int   // bytes of a tail, compressed
	TailRaw       int   // bytes of entries that the tail accepts at once; more become segments
	TailMin       int   // bytes from which a tail may be sealed before it is full
	TailRepeats   int   // seal such a tail when documents have repeated its size so many times
	SegmentRaw    int   // bytes of entries in a segment of a backlog
	StepBytes     int   // bytes of entries in one step of a backlog
	CompactAt     int   // number of segments that are compacted into a segment index
	RefsMax       int   // number of refs in the document from which a new checkpoint is due
	CheckpointMin int64 // minimum bytes of log, compressed, for a new checkpoint
}

// DefaultConfig returns the defaults, which follow the contract of the legacy broker where
// it has one.
func DefaultConfig() Config {
	return Config{
		Interval:        50 * time.Millisecond,
		Heartbeat:       3 * time.Second,
		ConflictBackoff: 50 * time.Millisecond,
		ConflictRetries: 5,
		WriteTimeout:    5 * time.Second,
		Bandwidth:       8 << 20,
		Window:          24 * time.Hour,

		ViewMax:       document.ViewMax,
		TailMax:       96 << 10,
		TailRaw:       1 << 20,
		TailMin:       8 << 10,
		TailRepeats:   8,
		SegmentRaw:    1 << 20,
		StepBytes:     4 << 20,
		CompactAt:     32,
		RefsMax:       96,
		CheckpointMin: 4 << 20,
	}
}

// SaveRequests adapts c to a store that charges for each request and little for bytes: most
// flushes are one write, and the writes of all kinds together respect the interval.
func (c *Config) SaveRequests() {
	c.CountObjects = true
	c.TailMax, c.TailRepeats = 768<<10, 32
	c.SegmentRaw = c.StepBytes
	c.CheckpointMin = 8 << 20
}

// viewMax returns how many bytes the jobs in the document may take. viewed reports whether the last
// one shows them: jobs near the bound must not come and go at each flush.
func (c *Config) viewMax(viewed bool) int {
	if viewed {
		return c.ViewMax
	}
	return c.ViewMax / 4 * 3
}

// spread returns the pause before the next flush if so many objects, in addition to the
// documents, have been written for which no flush has waited yet.
func (c *Config) spread(pause time.Duration, owed int) time.Duration {
	if !c.CountObjects {
		return pause
	}
	return min(pause*time.Duration(1+owed), max(pause, c.Heartbeat))
}

// owedMax bounds the objects for which later flushes wait, so that flushes are frequent again
// soon after a backlog.
const owedMax = 16

// owe returns the objects for which later flushes have to wait: owed before, less those for
// which this flush has waited, and those that it has written. A checkpoint is several objects,
// for which one pause, which the heartbeat bounds, is too short.
func owe(owed int, pause, waited time.Duration, written int) int {
	return min(max(owed+1-int(waited/max(pause, 1)), 0)+written, owedMax)
}

// pause returns the time between the start of a write of so many bytes and the next start.
func (c *Config) pause(interval time.Duration, bytes int) time.Duration {
	if c.Bandwidth <= 0 {
		return interval
	}
	byBandwidth := time.Duration(float64(bytes) / float64(c.Bandwidth) * float64(time.Second))
	return min(max(interval, byBandwidth), max(interval, c.Heartbeat))
}

// sealDue reports whether a tail of tail bytes must be sealed. repeated is the sum of its bytes
// in all documents since the last seal.
func (c *Config) sealDue(tail int, repeated int64) bool {
	return tail >= c.TailMax || tail >= c.TailMin && repeated >= int64(c.TailRepeats)*int64(tail)
}

// ObjectEvery returns the least time, on average, between two objects that the flusher
// writes in addition to the document, if the document is written every Heartbeat and the
// log grows by load bytes of entries a second that cannot be compressed. 0 is never.
func (c *Config) ObjectEvery(load int64) time.Duration {
	if load <= 0 {
		return 0
	}
	bytes := float64(load) * c.Heartbeat.Seconds() // between two writes of the document
	segments := max(bytes/float64(c.TailMax), 1/float64(2*c.TailRepeats))
	if bytes > float64(min(c.TailRaw, c.SegmentRaw)) { // each write is a backlog
		segments = math.Ceil(bytes / float64(c.SegmentRaw))
	}
	// A checkpoint is written when the log is as large: the sealed tail, a manifest, a part.
	objects := segments*(1+1/float64(c.CompactAt)) + 3*bytes/float64(c.CheckpointMin)
	return time.Duration(float64(c.Heartbeat) / objects)
}

// checkpointDue reports whether a log of log bytes and refs refs needs a new checkpoint; checkpoint is
// the size of the last one.
func (c *Config) checkpointDue(checkpoint, log int64, refs int) bool {
	return log > max(checkpoint, c.CheckpointMin) || refs > c.RefsMax
}

// Written is one written version of the document.
type Written struct {
	Content *document.Content
	Viewed  bool // it shows the jobs
	Bytes   int
	Kept    fsm.LSN // the archive does not need the entries of the unflushed log up to it
}
