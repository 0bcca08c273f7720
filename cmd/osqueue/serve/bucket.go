package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"osqueue/internal/sleep"
	"osqueue/storage/bucketurl"
	"osqueue/storage/cost"
	"osqueue/storage/detach"
	"osqueue/storage/metered"
	"osqueue/storage/probe"
	"osqueue/storage/throttle"
)

// Time limits of the first probe of the bucket. A node that has run before gets less
// time, because the quorum needs it even without the bucket.
const (
	probeTimeout      = 20 * time.Second
	probeTimeoutKnown = 3 * time.Second
	probeRetry        = 5 * time.Second
)

// openBucket opens the bucket and checks that its conditional writes work. A new node
// does not start before the check has succeeded: if the bucket does not answer, its URL
// is probably wrong. A node that has run before starts anyway, and keepProving continues
// the check.
func (s *server) openBucket(ctx context.Context, o *serveOptions, metrics *prometheus.Registry) error {
	open := bucketurl.Open
	if o.node.HasState() {
		open = bucketurl.OpenKnown
	}
	b, err := open(ctx, o.bucket)
	if err != nil {
		return fmt.Errorf("--bucket: %w", err)
	}
	if p := &o.pace; p.priceGuess {
		s.log.Info("the prices of the bucket's requests are a guess; give them with --bucket-prices", "prices", p.plan.Prices, "list", p.priceList)
	}
	counted := metered.New(detach.New(b), newStorageMetrics(metrics).ObserveStorage, o.account().ObserveStorage)
	throttled, err := throttle.New(counted, o.budget)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	s.bucket, s.throttle, o.node.Bucket = throttled, throttled, throttled
	known, patience := o.node.HasRun(), probeTimeout
	if known {
		patience = probeTimeoutKnown
	}
	err = probe.RunFor(ctx, counted, o.bucket, patience)
	if err == nil || !known || errors.Is(err, probe.ErrUnsafe) || ctx.Err() != nil {
		return err
	}
	s.log.Warn("the bucket does not answer; starting without it", "error", err)
	s.prove = func(ctx context.Context) error { return probe.RunFor(ctx, counted, o.bucket, probeTimeout) }
	return nil
}

// account starts the accounting of bucket costs. The node shows the costs and, with a
// budget, limits the rate of flushes to it.
func (o *serveOptions) account() *cost.Meter {
	plan, c := &o.pace.plan, &o.node
	meter := cost.NewMeter(plan.Prices, plan.Budget, nil)
	c.Account = meter.Report
	if plan.Budget > 0 {
		c.FlushInterval = cost.NewPacer(meter, c.Flush.Heartbeat).Interval
	}
	return meter
}

// keepProving probes a bucket that did not answer at the start until it answers or ctx
// ends. If the bucket must not be used, the channel delivers the reason.
func (s *server) keepProving(ctx context.Context) (unsafe <-chan error) {
	if s.prove == nil {
		return nil
	}
	found := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			err := s.prove(ctx)
			if err == nil {
				s.log.Info("the bucket answers, and keeps its conditions")
				return
			}
			if errors.Is(err, probe.ErrUnsafe) {
				found <- err
				return
			}
			sleep.For(ctx, probeRetry)
		}
	}()
	return found
}
