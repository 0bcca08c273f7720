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
	inner  storage.Bucket
	reads  *pace
	writes *pace
	day    *day
}

var _ storage.Bucket = (*Bucket)(nil)

// New decorates inner.
func New(inner storage.Bucket, c Config) (*Bucket, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	wait := c.MaxWait
	if wait == 0 {
		wait = DefaultMaxWait
	}
	return &Bucket{
		inner:  inner,
		reads:  newPace("reads", c.ReadsPerMinute, wait),
		writes: newPace("writes", c.WritesPerMinute, wait),
		day:    &day{budget: c.WritesPerDay},
	}, nil
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	if err := b.reads.wait(ctx); err != nil {
		return storage.Object{}, fmt.Errorf("get %q: %w", key, err)
	}
	return b.inner.Get(ctx, key)
}

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	if err := b.admitWrite(ctx, key); err != nil {
		return storage.Write{Err: err}
	}
	return b.inner.PutIfAbsent(ctx, key, data)
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	if err := b.admitWrite(ctx, key); err != nil {
		return storage.Write{Err: err}
	}
	return b.inner.PutIfMatch(ctx, key, data, v)
}

// admitWrite takes one write from the day's budget and waits for its turn.
func (b *Bucket) admitWrite(ctx context.Context, key string) error {
	taken, err := b.day.take(time.Now())
	if err != nil {
		b.writes.refused()
		return fmt.Errorf("put %q: %w", key, err)
	}
	if err := b.writes.wait(ctx); err != nil {
		b.day.untake(taken)
		return fmt.Errorf("put %q: %w", key, err)
	}
	return nil
}

// List implements storage.Bucket. A listing counts as one read, with any number of pages.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	if err := b.reads.wait(ctx); err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	return b.inner.List(ctx, prefix, fn)
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error { return b.inner.Delete(ctx, key) }

// DeleteBatch implements storage.BatchDeleter.
func (b *Bucket) DeleteBatch(ctx context.Context, keys []string) map[string]error {
	return storage.DeleteAll(ctx, b.inner, keys)
}

// Close implements storage.Bucket.
func (b *Bucket) Close() error { return b.inner.Close() }

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
