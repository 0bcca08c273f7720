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
	return &pace{what: what, limit: perMinute, maxWait: maxWait, limiter: limiter(perMinute)}
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
