package serve

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"osqueue/api/hooks"
	"osqueue/cluster"
	"osqueue/fsm"
)

// hookOptions are the flags about webhooks.
type hookOptions struct {
	allow   []string
	keyFile string
	caFile  string
	cfg     hooks.Config // of the flags, set by check
}

func (o *hookOptions) check() error {
	o.cfg = hooks.Config{}
	for _, text := range o.allow {
		p, err := hooks.ParseNetwork(text)
		if err != nil {
			return fmt.Errorf("--hook-allow: %w", err)
		}
		o.cfg.Allow = append(o.cfg.Allow, p)
	}
	var err error
	if o.cfg.Keys, err = hooks.LoadKeys(o.keyFile); err != nil {
		return err
	}
	if o.caFile == "" {
		return nil
	}
	pem, err := os.ReadFile(o.caFile)
	if err == nil {
		o.cfg.Roots, err = hooks.Roots(pem)
	}
	if err != nil {
		return fmt.Errorf("--hook-ca %s: %w", o.caFile, err)
	}
	return nil
}

// newSender returns the sender of the webhooks. The node runs it while it leads.
func (o *hookOptions) newSender(log hclog.Logger) *hooks.Sender {
	cfg := o.cfg
	cfg.Log, cfg.Resolver = log.Named("hooks"), net.DefaultResolver
	return hooks.New(cfg)
}

// hookNode is a node as the sender of webhooks sees it.
type hookNode struct{ *cluster.Node }

// AwaitEvent implements hooks.Node.
func (n hookNode) AwaitEvent(ctx context.Context) {
	_ = n.Events().Wait(ctx, n.Events().Last()) // the error is that of ctx
}

// LagMs implements hooks.Node.
func (n hookNode) LagMs() int64 { return n.Status().LagMs }

// deliver runs the sender while a node leads.
func deliver(s *hooks.Sender) func(context.Context, *cluster.Node) {
	return func(ctx context.Context, n *cluster.Node) { s.Run(ctx, hookNode{n}) }
}

// hookCollector sends the figures of webhooks at each scrape. There are at most fsm.HooksMax.
// The counters of events are those of the state, so they do not go back over failovers.
type hookCollector struct {
	node   interface{ View() *fsm.View }
	sender *hooks.Sender

	delivered, failed, dropped, attempts *prometheus.Desc
	pending, bytes, lag, failing, alerts *prometheus.Desc
}

func newHookCollector(node interface{ View() *fsm.View }, s *hooks.Sender) *hookCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("osqueue_hook_"+name, help, []string{"hook"}, nil)
	}
	return &hookCollector{
		node: node, sender: s,
		delivered: desc("events_delivered_total", "Events that the receiver has accepted."),
		failed:    desc("events_failed_total", "Events that were given up."),
		dropped:   desc("events_dropped_total", "Events for which the outbox had no room."),
		attempts:  desc("attempts_failed_total", "Deliveries of this process that failed."),
		pending:   desc("events_pending", "Events in the outbox."),
		bytes:     desc("outbox_bytes", "Size of the outbox."),
		lag:       desc("lag_seconds", "Age of the oldest event in the outbox; 0 without one."),
		failing:   desc("failing", "1 while all deliveries fail."),
		alerts:    desc("alerts_firing", "Alerts that fire."),
	}
}

// Describe implements prometheus.Collector.
func (c *hookCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.delivered, c.failed, c.dropped, c.attempts, c.pending, c.bytes, c.lag, c.failing, c.alerts} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *hookCollector) Collect(ch chan<- prometheus.Metric) {
	out, v := sender{ch: ch}, c.node.View()
	now := max(time.Now().UnixMilli(), v.Meta().Now)
	v.Hooks(func(h *fsm.Hook) bool {
		out.counter(c.delivered, float64(h.Delivered), h.Name)
		out.counter(c.failed, float64(h.Failed), h.Name)
		out.counter(c.dropped, float64(h.Dropped), h.Name)
		out.gauge(c.pending, float64(h.Pending), h.Name)
		out.gauge(c.bytes, float64(h.Bytes), h.Name)
		lag := int64(0)
		v.HookEvents(h.Name, fsm.HookEventID{}, func(e *fsm.HookEvent) bool {
			lag = now - e.At
			return false
		})
		out.gauge(c.lag, float64(lag)/1000, h.Name)
		out.flag(c.failing, h.FailingSince != 0, h.Name)
		out.gauge(c.alerts, float64(len(h.Alerts)), h.Name)
		return true
	})
	c.sender.FailedAttempts(func(hook string, n uint64) {
		if v.Hook(hook) != nil {
			out.counter(c.attempts, float64(n), hook)
		}
	})
}
