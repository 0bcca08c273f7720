package serve

import (
	"fmt"
	"strings"
	"time"

	"osqueue/cluster"
	"osqueue/storage/cost"
)

// pace contains the flags for the rate of flushes, the budget of the bucket, and the
// limits when the bucket lags behind.
type pace struct {
	ack       string
	interval  *time.Duration // nil: that of the store, as the next two
	heartbeat *time.Duration
	timeout   *time.Duration
	inbox     inboxOptions
	budget    string
	prices    string
	load      int64

	plan       cost.Plan // computed from the flags
	priceList  string    // the store whose price list is used
	priceGuess bool      // whether the store's own prices are unknown
}

// paces are the defaults by kind of store: GCS takes one write a second to an object, S3
// charges for each request, and directories are fast and free.
var paces = map[string]struct{ flush, inbox, idle, heartbeat, timeout time.Duration }{
	"mem":  {flush: 50 * time.Millisecond, inbox: time.Second, idle: time.Second, heartbeat: 3 * time.Second, timeout: 10 * time.Second},
	"file": {flush: 50 * time.Millisecond, inbox: time.Second, idle: time.Second, heartbeat: 3 * time.Second, timeout: 10 * time.Second},
	"s3":   {flush: time.Second, inbox: 10 * time.Second, idle: 5 * time.Minute, heartbeat: 10 * time.Second, timeout: 30 * time.Second},
	"gs":   {flush: 1100 * time.Millisecond, inbox: 10 * time.Second, idle: 5 * time.Minute, heartbeat: 10 * time.Second, timeout: 30 * time.Second},
}

// complete checks the flags together, and fills in the values that depend on the store.
func (p *pace) complete(bucket string, c *cluster.Config) (err error) {
	scheme, _, _ := strings.Cut(bucket, "://")
	own := paces[scheme]
	c.Flush.Interval = given(p.interval, own.flush)
	c.BrokerTimeout = given(p.timeout, own.timeout)
	c.Flush.Heartbeat = given(p.heartbeat, min(own.heartbeat, (c.BrokerTimeout/3).Truncate(time.Millisecond)))
	if err := p.checkTimes(c); err != nil {
		return err
	}
	if err := p.inbox.complete(own.inbox, own.idle); err != nil {
		return err
	}
	p.plan = cost.Plan{BrokerTimeout: c.BrokerTimeout}
	if p.budget != "" {
		if p.plan.Budget, err = cost.ParseMoney(p.budget); err != nil {
			return fmt.Errorf("--bucket-budget: %w", err)
		}
	}
	listed, source, known := cost.PricesOf(bucket)
	if p.plan.Prices, err = cost.ParsePrices(p.prices, listed); err != nil {
		return fmt.Errorf("--bucket-prices: %w", err)
	}
	p.priceList, p.priceGuess = source, !known && p.prices == ""
	if p.plan.Prices.Put > 0 {
		c.Flush.SaveRequests()
	}
	p.plan.Repeated = append(c.Repeated(p.load), p.inbox.repeated())
	if err := p.plan.Check(); err != nil {
		return fmt.Errorf("--bucket-budget: %w", err)
	}
	return nil
}

// checkTimes compares the times. If a flush may come later than the heartbeat, another
// cluster may consider this one dead.
func (p *pace) checkTimes(c *cluster.Config) error {
	heartbeat := c.Flush.Heartbeat
	switch {
	case c.Flush.Interval <= 0:
		return fmt.Errorf("--flush-interval %v: must be positive", c.Flush.Interval)
	case heartbeat <= 0:
		return fmt.Errorf("--broker-heartbeat %v: must be positive", heartbeat)
	case c.Flush.Interval > heartbeat:
		return fmt.Errorf("--flush-interval %v: must not be longer than --broker-heartbeat, %v: the heartbeats are flushes",
			c.Flush.Interval, heartbeat)
	}
	return nil
}
