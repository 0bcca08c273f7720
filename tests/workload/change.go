package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/history"
)

// wideKey is the key that customers share, and customers is the number of their own keys.
const (
	wideKey   = "api"
	customers = 2
)

func customer(a *actor) string { return fmt.Sprint("customer:", a.rng.IntN(customers)) }

// limits are the keys of a job, sorted.
func limits(a *actor) []string {
	keys := []string{wideKey, customer(a)}
	switch n := a.rng.IntN(4); n {
	case 0, 1:
		return keys[n : n+1]
	}
	return keys
}

// edit changes a job: mostly the youngest one that had to wait. Half of the edits name a revision, which may be another one. Now and
// then it sends a signal.
func (l *Load) edit(ctx context.Context, a *actor) {
	if a.chance(40) {
		l.signal(ctx, a)
		return
	}
	job, _, ok := l.known.any(a)
	if last := l.waiting.youngest(); last != "" && a.chance(90) {
		job, ok = last, true
	}
	if a.edited != "" && a.chance(50) { // once more
		job, ok = a.edited, true
	}
	if !ok {
		return
	}
	a.edited = job
	op := history.Op{Kind: history.Edit, Job: job, Payload: fmt.Sprintf(`{"of":%q,"edit":%q}`, a.name, client.NewID())}
	e := client.Edit{Payload: []byte(op.Payload)}
	if a.chance(50) {
		op.IfRevision = new(uint64(a.rng.IntN(2)))
		e.Revision = op.IfRevision
	}
	switch {
	case a.chance(20):
		e.Delay = new(time.Duration(50+a.rng.IntN(500)) * time.Millisecond)
		op.Delay = history.Time(*e.Delay)
	case a.chance(20):
		e.Limits = limits(a)
		op.Limits = strings.Join(e.Limits, ",")
	case a.chance(20):
		e.Priority = new(int32(a.rng.IntN(3) - 1))
	}
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		c, err := a.client.Edit(ctx, job, e)
		op.Revision = c.Revision
		return err
	})
}

// limit sets the rule of a pattern or takes it away, and now and then holds a key, puts a schedule or changes the ageing of a type.
func (l *Load) limit(ctx context.Context, a *actor) {
	switch a.rng.IntN(6) {
	case 0:
		l.putSchedule(ctx, a)
		return
	case 1:
		l.age(ctx, a)
		return
	}
	if a.chance(10) {
		op := history.Op{Kind: history.Throttle, Limit: customer(a), Delay: history.Time(a.rng.IntN(2)) * 300 * history.Millisecond}
		l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
			return a.client.HoldLimit(ctx, op.Limit, time.Duration(op.Delay))
		})
		return
	}
	patterns := []string{"customer:*", "customer:0", wideKey}
	op := history.Op{Kind: history.SetLimit, Limit: patterns[a.rng.IntN(len(patterns))]}
	if a.chance(10) {
		l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error { return a.client.RemoveLimit(ctx, op.Limit) })
		return
	}
	op.Rule = &history.Rule{Running: int64(1 + a.rng.IntN(2))}
	if op.Limit == wideKey { // a little more than the jobs that come with it
		op.Rule = &history.Rule{RateMilli: int64(5+a.rng.IntN(8)) * 1000, Burst: int64(1 + a.rng.IntN(4))}
	}
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		return a.client.SetLimit(ctx, op.Limit, v1.LimitRule{
			MaxRunning: op.Rule.Running, RatePerSecond: float64(op.Rule.RateMilli) / 1000, Burst: op.Rule.Burst,
		})
	})
}

// throttle holds a key of a job that the worker has, as if a server had answered 429.
func (l *Load) throttle(ctx context.Context, a *actor, lease client.Lease, keys []string) {
	op := report(history.Throttle, lease)
	op.Limit, op.Delay = keys[a.rng.IntN(len(keys))], history.Time(50+a.rng.IntN(300))*history.Millisecond
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		return a.client.Throttle(ctx, lease, op.Limit, time.Duration(op.Delay))
	})
}
