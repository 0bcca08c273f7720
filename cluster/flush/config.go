package flush

import "time"

// Config paces the flusher.
type Config struct {
	Interval        time.Duration // least time between the starts of two writes
	Heartbeat       time.Duration // most time between two writes
	ConflictBackoff time.Duration // pause after the n-th conflict is n times this
	ConflictRetries int           // conflicts in a row before it waits for the next round
	WriteTimeout    time.Duration // of one write, with its settling
	Bandwidth       int           // bytes a second that writing may take on average; 0 is no limit
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
	}
}

// pause is how long after the start of a write of so many bytes the next one
// may start.
func (c *Config) pause(bytes int) time.Duration {
	if c.Bandwidth <= 0 {
		return c.Interval
	}
	byBandwidth := time.Duration(float64(bytes) / float64(c.Bandwidth) * float64(time.Second))
	return min(max(c.Interval, byBandwidth), max(c.Interval, c.Heartbeat))
}
