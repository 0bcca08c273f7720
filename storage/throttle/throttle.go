// Package throttle is a decorator that keeps the requests to a bucket within a budget:
// reads per minute, writes per minute, writes per day.
//
// The rates per minute delay operations: an operation that comes too early waits for its
// turn. It is refused at once, with storage.ErrThrottled, if its context would end before
// its turn, or if the turn is more than Config.MaxWait away, so that the waiting time is
// bounded. The budget of the day refuses operations: when it is spent, every write gets
// ErrThrottled until the next midnight UTC. Refused operations do not reach the store.
//
// Rates are token buckets of a tenth of the minute's amount: a quiet minute may
// be followed by a burst of that size, so any 60 seconds see at most 110 % of
// the rate. A listing counts as a read. Deletes pass: S3 and GCS do not charge
// them. The counts live in the process; a restart starts a new day.
package throttle

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"osqueue/storage"
)

// DefaultMaxWait is the longest time that an operation waits for its turn by default.
const DefaultMaxWait = 30 * time.Second

// Config is a request budget. Zero means no limit.
type Config struct {
	ReadsPerMinute  int
	WritesPerMinute int
	WritesPerDay    int
	// MaxWait is the longest wait for a turn; 0 means DefaultMaxWait.
	MaxWait time.Duration
}

// Validate returns an error if c has a negative limit.
func (c Config) Validate() error {
	if c.ReadsPerMinute < 0 || c.WritesPerMinute < 0 || c.WritesPerDay < 0 || c.MaxWait < 0 {
		return fmt.Errorf("storage budget %+v: must not be negative; 0 is no limit", c)
	}
	return nil
}

// Bucket forwards operations to another bucket at a limited rate.
type Bucket struct {
	*storage.Decorated
	reads  *pace
	writes *pace
	day    *day
}

// New decorates inner.
func New(inner storage.Bucket, c Config) (*Bucket, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	wait := c.MaxWait
	if wait == 0 {
		wait = DefaultMaxWait
	}
	b := &Bucket{
		reads:  newPace("reads", c.ReadsPerMinute, wait),
		writes: newPace("writes", c.WritesPerMinute, wait),
		day:    &day{budget: c.WritesPerDay},
	}
	b.Decorated = storage.Decorate(inner, func(ctx context.Context, c storage.Call, next func() storage.Answer) storage.Answer {
		if err := b.admit(ctx, c.Op); err != nil {
			return c.Refuse(err)
		}
		return next()
	})
	return b, nil
}

// admit waits for the turn of an operation. A write is first taken from the day's budget. A listing counts as one
// read, with any number of pages.
func (b *Bucket) admit(ctx context.Context, op storage.Op) error {
	switch {
	case op == storage.OpDelete:
		return nil
	case !op.IsWrite():
		return b.reads.wait(ctx)
	}
	taken, err := b.day.take(time.Now())
	if err != nil {
		b.writes.refused()
		return err
	}
	if err = b.writes.wait(ctx); err != nil {
		b.day.untake(taken)
	}
	return err
}

// limiter returns a token bucket for perMinute operations a minute.
func limiter(perMinute int) *rate.Limiter {
	if perMinute == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, perMinute/10))
}

// Stats counts the operations of a Bucket since it was made. The JSON names are those of
// the throttle statistics of the legacy broker.
type Stats struct {
	// TotalReads and TotalWrites count operations forwarded to the store.
	TotalReads  int64 `json:"totalReads"`
	TotalWrites int64 `json:"totalWrites"`
	// ThrottledReads and ThrottledWrites count operations delayed or refused.
	ThrottledReads  int64 `json:"throttledReads"`
	ThrottledWrites int64 `json:"throttledWrites"`
	// TotalReadDelayMs and TotalWriteDelayMs are the sums of the delays.
	TotalReadDelayMs  int64 `json:"totalReadDelayMs"`
	TotalWriteDelayMs int64 `json:"totalWriteDelayMs"`
	// DailyWriteCount counts today's writes (UTC).
	DailyWriteCount     int64 `json:"dailyWriteCount"`
	DailyBudgetExceeded bool  `json:"dailyBudgetExceeded"`
}

// Stats returns the counts of this moment. It is safe for concurrent use.
func (b *Bucket) Stats() Stats {
	var s Stats
	s.TotalReads, s.ThrottledReads, s.TotalReadDelayMs = b.reads.counts()
	s.TotalWrites, s.ThrottledWrites, s.TotalWriteDelayMs = b.writes.counts()
	s.DailyWriteCount, s.DailyBudgetExceeded = b.day.state(time.Now())
	return s
}
