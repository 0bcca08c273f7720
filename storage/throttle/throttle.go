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
// the rate. A listing counts as a read, and a request of others when it is signed.
// Deletes pass: S3 and GCS do not charge them. The counts live in the process; a
// restart starts a new day.
package throttle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"osqueue/internal/sleep"
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
	b.Decorated = storage.Decorate(inner, func(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		if err := b.admit(ctx, c.Op); err != nil {
			return c.Refuse(err)
		}
		return next(ctx)
	})
	return b, nil
}

// admit waits for the turn of an operation. A write is first taken from the day's budget. A listing counts as one
// read, with any number of pages.
func (b *Bucket) admit(ctx context.Context, op storage.Op) error {
	switch {
	case op == storage.OpDelete:
		return nil
	case !op.IsWrite() && op != storage.OpSignPut:
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

// pace delays the operations of one sort until their turn, and counts them.
type pace struct {
	what    string
	limit   int
	maxWait time.Duration
	limiter *rate.Limiter

	mu        sync.Mutex
	total     int64 // forwarded to the store
	throttled int64 // delayed or refused
	delay     time.Duration
}

func newPace(what string, perMinute int, maxWait time.Duration) *pace {
	limiter := rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, perMinute/10))
	if perMinute == 0 {
		limiter.SetLimit(rate.Inf)
	}
	return &pace{what: what, limit: perMinute, maxWait: maxWait, limiter: limiter}
}

// wait returns nil when the operation may continue, or the reason for its refusal.
func (p *pace) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	turn := p.limiter.ReserveN(now, 1)
	d := turn.DelayFrom(now)
	if deadline, ok := ctx.Deadline(); d > p.maxWait || ok && now.Add(d).After(deadline) {
		turn.CancelAt(now)
		p.refused()
		return fmt.Errorf("%w: more than %d %s a minute; the next one is allowed in %v",
			storage.ErrThrottled, p.limit, p.what, d.Round(time.Millisecond))
	}
	if d > 0 && !sleep.For(ctx, d) {
		p.refused()
		turn.Cancel()
		return ctx.Err()
	}
	p.passed(d)
	return nil
}

func (p *pace) passed(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total++
	if d > 0 {
		p.throttled++
		p.delay += d
	}
}

func (p *pace) refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.throttled++
}

// counts returns the operations forwarded, the operations delayed or refused, and the sum
// of the delays in ms.
func (p *pace) counts() (total, throttled, delayMs int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total, p.throttled, p.delay.Milliseconds()
}

// day is the budget of writes from midnight to midnight, UTC.
type day struct {
	budget int

	mu    sync.Mutex
	date  string
	count int64
}

// take counts one write for the day of now, and returns that day.
func (d *day) take(now time.Time) (date string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnLocked(now)
	if d.spentLocked() {
		midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		return "", fmt.Errorf("%w: the budget of %d writes for %s is used up; it is renewed in %v",
			storage.ErrThrottled, d.budget, d.date, midnight.Sub(now).Round(time.Second))
	}
	d.count++
	return d.date, nil
}

// untake undoes take for a write that was refused.
func (d *day) untake(date string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.date == date {
		d.count--
	}
}

func (d *day) state(now time.Time) (count int64, spent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnLocked(now)
	return d.count, d.spentLocked()
}

func (d *day) turnLocked(now time.Time) {
	if date := now.UTC().Format(time.DateOnly); date != d.date {
		d.date, d.count = date, 0
	}
}

func (d *day) spentLocked() bool { return d.budget > 0 && d.count >= int64(d.budget) }
