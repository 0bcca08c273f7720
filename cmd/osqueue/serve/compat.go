package serve

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"osqueue/api"
	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/compat/dtq"
	"osqueue/compat/osqueue"
	"osqueue/internal/auth"
	"osqueue/internal/web"
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
			Client:   api.ClientOf,
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

// legacyOptions are the flags of the listener for clients that know neither TLS nor tokens.
type legacyOptions struct {
	address string // "": none
	allow   string
	types   []string

	networks []netip.Prefix // of allow
}

// The words of --legacy-allow for networks.
const (
	allowLoopback = "loopback"
	allowPrivate  = "private"
)

// allowWords are the networks that the words of --legacy-allow mean.
var allowWords = map[string][]string{
	allowLoopback: {"127.0.0.0/8", "::1/128"},
	// Private, shared (RFC 6598) and link-local addresses.
	allowPrivate: {
		"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fc00::/7", "fe80::/10",
	},
}

// allTypes is the value of --legacy-types for all types, also those with a slash.
const allTypes = "*"

// check completes the options.
func (o *legacyOptions) check() (err error) {
	switch {
	case o.address == "" && o.allow != "":
		return errors.New("--legacy-allow: give --legacy-http-addr too")
	case o.address == "":
		return nil
	}
	if _, _, err := net.SplitHostPort(o.address); err != nil {
		return fmt.Errorf("--legacy-http-addr %q: write host:port", o.address)
	}
	if o.allow == "" {
		if !onLoopback(o.address) {
			return fmt.Errorf("--legacy-http-addr %s is reachable from other machines, and its clients need no token: name their networks with --legacy-allow, "+
				"such as 10.1.0.0/16, or %s for all private addresses", o.address, allowPrivate)
		}
		o.allow = allowLoopback
	}
	if o.networks, err = parseNetworks(o.allow); err != nil {
		return fmt.Errorf("--legacy-allow: %w", err)
	}
	if len(o.types) == 0 || slices.Contains(o.types, "") {
		return fmt.Errorf("--legacy-types: write patterns of types, such as mail or film.*; %s is all", allTypes)
	}
	if err := auth.CheckGlobs(o.types); err != nil {
		return fmt.Errorf("--legacy-types: %w", err)
	}
	return nil
}

// parseNetworks reads a list of networks and words.
func parseNetworks(text string) (networks []netip.Prefix, err error) {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		all := allowWords[one]
		if all == nil {
			all = []string{one}
		}
		for _, cidr := range all {
			p, err := netip.ParsePrefix(cidr)
			if err != nil || p != p.Masked() || p.Addr().Is4In6() {
				return nil, fmt.Errorf("%q is not a network: write it as 10.1.0.0/16 or fd00::/8, a single address as 10.1.0.7/32, or %s or %s", one, allowLoopback, allowPrivate)
			}
			networks = append(networks, p)
		}
	}
	return networks, nil
}

// config returns the configuration of the listener, or nil if there is none. address is that of
// the API.
func (o *legacyOptions) config(address string) *core.LegacyConfig {
	if o.address == "" {
		return nil
	}
	types := o.types
	if slices.Contains(types, allTypes) {
		types = nil
	}
	return &core.LegacyConfig{Networks: o.networks, Types: types, API: address}
}

// hosts returns addresses whose hosts are names of the listener.
func (o *legacyOptions) hosts() (addresses []string) {
	if o.address == "" {
		return nil
	}
	host, port, _ := net.SplitHostPort(o.address) // check has split it
	if isAll(host) {
		if own, err := os.Hostname(); err == nil {
			return []string{net.JoinHostPort(own, port)}
		}
	}
	return []string{o.address}
}

// listen opens the listener, or returns nil if there is none.
func (o *legacyOptions) listen(n web.Network) (net.Listener, error) {
	if o.address == "" {
		return nil, nil
	}
	ln, err := n.Listen("tcp", o.address)
	if err != nil {
		return nil, fmt.Errorf("listen for legacy clients on %s (--legacy-http-addr, or BROKER_HOST and BROKER_PORT): %w (another node or program uses it?)", o.address, err)
	}
	return ln, nil
}

// leaderURL returns the URL of the leader for a client of dtq. For legacy clients it is on the
// port of this node's listener, which is likely to be that of the leader's, or "" if both nodes
// have one host.
func (s *server) leaderURL(r *http.Request, leader string) string {
	if !api.IsLegacy(r) {
		return s.scheme + "://" + leader
	}
	host, _, err := net.SplitHostPort(leader)
	own, _, ownErr := net.SplitHostPort(s.advertised)
	_, port, portErr := net.SplitHostPort(s.legacy.Addr().String())
	if errors.Join(err, ownErr, portErr) != nil || host == own {
		return ""
	}
	return "http://" + net.JoinHostPort(host, port)
}
