package flush

import "time"

// Config paces the flusher and bounds what it writes.
type Config struct {
	Interval        time.Duration // least time between the starts of two writes
	Heartbeat       time.Duration // most time between two writes
	IdleHeartbeat   time.Duration // the same while Effects.Idle; it is promised in the document. 0: Heartbeat
	ConflictBackoff time.Duration // pause after the n-th conflict is n times this
	ConflictRetries int           // conflicts in a row before it waits for the next round
	WriteTimeout    time.Duration // of one write, with its settling
	Bandwidth       int           // bytes a second that writing may take on average; 0 is no limit
	CountObjects    bool          // an object counts as a write: the next one waits an interval more

	InlineMax  int   // bytes of a document that holds the state itself
	TailMax    int   // bytes of a tail, compressed
	TailRaw    int   // bytes of entries that the tail takes at once; more become segments
	TailMin    int   // bytes from which a tail may be cut before it is full
	TailRent   int   // it is then cut when it has been written so many times over
	SegmentRaw int   // bytes of entries in a segment of a backlog
	StepBytes  int   // bytes of entries that a backlog is written by
	FoldAt     int   // segments that are folded into a chapter
	RefsMax    int   // refs in the document that make a new base due
	BaseMin    int64 // bytes of log, compressed, before a new base is due
}

// DefaultConfig follows the contract of the original broker where it has one.
func DefaultConfig() Config {
	return Config{
		Interval:        50 * time.Millisecond,
		Heartbeat:       3 * time.Second,
		ConflictBackoff: 50 * time.Millisecond,
		ConflictRetries: 5,
		WriteTimeout:    5 * time.Second,
		Bandwidth:       8 << 20,

		InlineMax:  256 << 10,
		TailMax:    96 << 10,
		TailRaw:    1 << 20,
		TailMin:    8 << 10,
		TailRent:   8,
		SegmentRaw: 1 << 20,
		StepBytes:  4 << 20,
		FoldAt:     32,
		RefsMax:    96,
		BaseMin:    4 << 20,
	}
}

// SaveRequests adapts c to a store that charges for each request and little for bytes: most
// flushes are one write, and the writes of all kinds together keep to the interval.
func (c *Config) SaveRequests() {
	c.CountObjects = true
	c.TailMax, c.TailRent = 768<<10, 32
	c.SegmentRaw = c.StepBytes
	c.BaseMin = 8 << 20
}

// spread is the pause after a flush that has written so many objects beside the document.
func (c *Config) spread(pause time.Duration, objects int) time.Duration {
	if !c.CountObjects {
		return pause
	}
	return min(pause*time.Duration(1+objects), max(pause, c.Heartbeat))
}

// pause is how long after the start of a write of so many bytes the next one
// may start.
func (c *Config) pause(interval time.Duration, bytes int) time.Duration {
	if c.Bandwidth <= 0 {
		return interval
	}
	byBandwidth := time.Duration(float64(bytes) / float64(c.Bandwidth) * float64(time.Second))
	return min(max(interval, byBandwidth), max(interval, c.Heartbeat))
}

// cutDue decides whether a tail of so many bytes, which was written so often that
// it sums up to rent, is cut.
func (c *Config) cutDue(tail int, rent int64) bool {
	return tail >= c.TailMax || tail >= c.TailMin && rent >= int64(c.TailRent)*int64(tail)
}

// baseDue decides whether a log of so many bytes and refs asks for a new base.
func (c *Config) baseDue(base, log int64, refs int) bool {
	return log > max(base, c.BaseMin) || refs > c.RefsMax
}
