package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/units"
	"osqueue/storage/cost"
)

// pace contains the flags for the rate of flushes, the budget of the bucket, and the
// limits when the bucket lags behind.
type pace struct {
	ack       string
	interval  storeSpan
	heartbeat storeSpan
	timeout   storeSpan
	inbox     inboxOptions
	budget    string
	prices    string
	load      units.Size

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

func (p *pace) bind(f *pflag.FlagSet, c *cluster.Config) {
	f.StringVar(&p.ack, "ack", v1.AckQuorum, "when a write is answered that does not say: quorum (a majority of the nodes has it on disk) or object (the bucket has it, too)")
	f.Var(&p.interval, "flush-interval", "least time between two writes to the bucket (default: 50ms for file and mem, 1s for s3, 1.1s for gs)")
	units.SpanVar(f, &c.MaxFlushLag, "max-flush-lag", c.MaxFlushLag, "how far the bucket may be behind before writes are refused, and how long a cluster that this one does not know of waits before it takes over; longer than --broker-timeout; 0 is no limit, and such a cluster waits until the bucket is released")
	f.Var(&p.heartbeat, "broker-heartbeat", "most time between two writes to the bucket, at most a third of --broker-timeout (default: 3s for file and mem, 10s for s3 and gs)")
	f.Var(&p.timeout, "broker-timeout", "time without a change of the document after which a standby that the document names takes the broker of another cluster for dead (default: 10s for file and mem, 30s for s3 and gs)")
	units.SpanVar(f, &c.PITRWindow, "pitr-window", c.PITRWindow, "how far back states can be restored from the bucket")
	p.inbox.bind(f)
	f.StringVar(&p.budget, "bucket-budget", "", "what the bucket's requests may cost a month, as in 5usd; flushes are spread so that it lasts; 0 is no limit")
	f.Var(&p.load, "bucket-load", "bytes of log entries a second that --bucket-budget must suffice for, about the payload and 500 bytes for each job, as in 100KB; 0 is an idle queue")
	f.StringVar(&p.prices, "bucket-prices", "", "dollars for 1000 requests and for a GB where they differ from the list, as in put=0.005,get=0.0004,list=0.005,delete=0,written=0,read=0")
}

// complete checks the flags together, and fills in the values that depend on the store.
func (p *pace) complete(bucket string, c *cluster.Config) (err error) {
	if p.ack != v1.AckQuorum && p.ack != v1.AckObject {
		return fmt.Errorf("--ack %q: write %s or %s", p.ack, v1.AckQuorum, v1.AckObject)
	}
	scheme, _, _ := strings.Cut(bucket, "://")
	own := paces[scheme]
	c.Flush.Interval = p.interval.or(own.flush)
	c.BrokerTimeout = p.timeout.or(own.timeout)
	c.Flush.Heartbeat = p.heartbeat.or(min(own.heartbeat, (c.BrokerTimeout / 3).Truncate(time.Millisecond)))
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
	p.plan.Repeated = append(c.Repeated(int64(p.load)), p.inbox.repeated())
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
	case c.MaxFlushLag < 0:
		return fmt.Errorf("--max-flush-lag %v: must not be negative; 0 is no limit", c.MaxFlushLag)
	case c.PITRWindow < 0:
		return fmt.Errorf("--pitr-window %v: must not be negative; 0 keeps no earlier states", c.PITRWindow)
	}
	return nil
}
