package serve

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/compat/dtq"
	"osqueue/compat/osqueue"
)

// wrap adds the contracts of older systems to the HTTP API.
func (s *server) wrap(o *serveOptions, metrics prometheus.Registerer) func(native http.Handler, calls core.Calls) http.Handler {
	return func(native http.Handler, calls core.Calls) http.Handler {
		s.original = osqueue.New(osqueue.Config{
			Native:   native,
			Calls:    calls,
			MaxBody:  o.bodyLimit,
			Inflight: s.inflight,
			Origins:  o.compat.allowed,
			Logger:   s.log.Named("compat"),
			Metrics:  metrics,
			Client:   core.ClientOf,
			Limits:   osqueue.Limits{Connections: o.compat.sockets, MessageBytes: o.compat.messageLimit},
		})
		return o.guarded(dtq.New(dtq.Config{
			Native:   s.original,
			Calls:    calls,
			Leader:   s.dtqLeader,
			MaxBody:  o.bodyLimit,
			Inflight: s.inflight,
			Logger:   s.log.Named("compat"),
		}))
	}
}

// dtqLeader describes the leader for clients of dtq.
func (s *server) dtqLeader(r *http.Request) dtq.Leader {
	address, self := s.node.Leader()
	if self {
		return dtq.Leader{Self: true}
	}
	if address == "" {
		return dtq.Leader{}
	}
	return dtq.Leader{Node: s.node.Status().LeaderNode, URL: s.leaderURL(r, address)}
}

// throttleStats returns nil if the bucket's requests have no limits.
func (s *server) throttleStats(o *serveOptions) func() v1.ThrottleStats {
	if b := &o.budget; b.ReadsPerMinute == 0 && b.WritesPerMinute == 0 && b.WritesPerDay == 0 {
		return nil
	}
	return func() v1.ThrottleStats { return v1.ThrottleStats(s.throttle.Stats()) }
}

// compatOptions are the flags of serve for clients of older systems and for browsers.
type compatOptions struct {
	origins      string
	sockets      int
	messageLimit int64

	allowed osqueue.Origins // parsed from origins
}

func (o *compatOptions) complete() (err error) {
	if o.allowed, err = osqueue.ParseOrigins(o.origins); err != nil {
		return fmt.Errorf("--cors-origins: %w", err)
	}
	return nil
}
