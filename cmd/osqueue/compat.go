package main

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	v1 "osqueue/client/api/v1"
	"osqueue/compat/dtq"
	"osqueue/compat/osqueue"
)

// compatOptions are the flags of serve for clients of older systems and for browsers.
type compatOptions struct {
	origins      string
	sockets      int
	messageLimit int64

	allowed osqueue.Origins // parsed from origins
}

func (o *compatOptions) bind(f *pflag.FlagSet) {
	limits := osqueue.DefaultLimits()
	f.StringVar(&o.origins, "cors-origins", osqueue.OriginsAny, "pages that may use the API in a browser: any, none, or origins like https://dash.example.test, comma separated")
	f.IntVar(&o.sockets, "ws-connections", limits.Connections, "how many WebSockets there may be at once")
	f.Int64Var(&o.messageLimit, "ws-message-limit", limits.MessageBytes, "largest message of a WebSocket, or of gRPC and Connect, in bytes")
}

func (o *compatOptions) complete() (err error) {
	if o.allowed, err = osqueue.ParseOrigins(o.origins); err != nil {
		return fmt.Errorf("--cors-origins: %w", err)
	}
	if o.sockets < 1 {
		return fmt.Errorf("--ws-connections %d: must be at least 1", o.sockets)
	}
	if most := osqueue.DefaultLimits().MessageBytes; o.messageLimit < 1 || o.messageLimit > most {
		return fmt.Errorf("--ws-message-limit %d: must lie between 1 and %d", o.messageLimit, most)
	}
	return nil
}

// wrap adds the contracts of older systems to the HTTP API.
func (s *server) wrap(o *serveOptions, metrics prometheus.Registerer) func(native, calls http.Handler) http.Handler {
	return func(native, calls http.Handler) http.Handler {
		s.original = osqueue.New(osqueue.Config{
			Native:   native,
			Calls:    calls,
			MaxBody:  o.bodyLimit,
			Inflight: s.inflight,
			Origins:  o.compat.allowed,
			Logger:   s.log.Named("compat"),
			Metrics:  metrics,
			Limits:   osqueue.Limits{Connections: o.compat.sockets, MessageBytes: o.compat.messageLimit},
		})
		return dtq.New(dtq.Config{
			Native:   s.original,
			Calls:    calls,
			Leader:   s.dtqLeader,
			MaxBody:  o.bodyLimit,
			Inflight: s.inflight,
			Logger:   s.log.Named("compat"),
		})
	}
}

// dtqLeader describes the leader for clients of dtq.
func (s *server) dtqLeader() dtq.Leader {
	address, self := s.node.Leader()
	if self {
		return dtq.Leader{Self: true}
	}
	if address == "" {
		return dtq.Leader{}
	}
	return dtq.Leader{Node: s.node.Status().LeaderNode, URL: "http://" + address}
}

// throttleStats returns nil if the bucket's requests have no limits.
func (s *server) throttleStats(o *serveOptions) func() v1.ThrottleStats {
	if b := &o.budget; b.ReadsPerMinute == 0 && b.WritesPerMinute == 0 && b.WritesPerDay == 0 {
		return nil
	}
	return func() v1.ThrottleStats { return v1.ThrottleStats(s.throttle.Stats()) }
}
