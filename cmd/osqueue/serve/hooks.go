package serve

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/hooks"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/outbox"
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

var (
	hookFigures = []figure[*outbox.Hook]{
		counter("hook_events_delivered_total", "Events that the receiver has accepted.", func(h *outbox.Hook) float64 { return float64(h.Delivered) }, "hook"),
		counter("hook_events_failed_total", "Events that were given up.", func(h *outbox.Hook) float64 { return float64(h.Failed) }, "hook"),
		counter("hook_events_dropped_total", "Events for which the outbox had no room.", func(h *outbox.Hook) float64 { return float64(h.Dropped) }, "hook"),
		gauge("hook_events_pending", "Events in the outbox.", func(h *outbox.Hook) float64 { return float64(h.Pending) }, "hook"),
		gauge("hook_outbox_bytes", "Size of the outbox.", func(h *outbox.Hook) float64 { return float64(h.Bytes) }, "hook"),
		gauge("hook_failing", "1 while all deliveries fail.", func(h *outbox.Hook) float64 { return oneIf(h.FailingSinceMs != 0) }, "hook"),
		gauge("hook_alerts_firing", "Alerts that fire.", func(h *outbox.Hook) float64 { return float64(len(h.Alerts)) }, "hook"),
	}
	descHookLag      = desc("hook_lag_seconds", "Age of the oldest event in the outbox; 0 without one.", "hook")
	descHookAttempts = desc("hook_attempts_failed_total", "Deliveries of this process that failed.", "hook")
)

// hookCollector sends the figures of webhooks at each scrape. There are at most outbox.HooksMax.
// The counters of events are those of the state, so they do not go back over failovers.
func hookCollector(view func() *fsm.View, from *hooks.Sender) collect {
	return func(out sender) {
		v := view()
		now := max(time.Now().UnixMilli(), v.Now())
		for h := range v.Hooks {
			send(out, hookFigures, h, h.Name)
			lag := int64(0)
			for e := range v.HookEvents(h.Name, outbox.EventID{}) {
				lag = now - e.AtMs
				break
			}
			out.gauge(descHookLag, float64(lag)/1000, h.Name)
		}
		from.FailedAttempts(func(hook string, n uint64) {
			if v.Hook(hook) != nil {
				out.counter(descHookAttempts, float64(n), hook)
			}
		})
	}
}
