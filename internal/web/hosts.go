package web

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// AnyHost is the entry of a list that allows all names.
const AnyHost = "any"

// Hosts are the names under which a node is known. The zero value has none: only addresses
// and the names of loopback are allowed.
type Hosts struct {
	any      bool
	names    map[string]bool
	suffixes []string // with a dot in front
}

// ParseHosts parses names separated by commas. An entry with a dot in front allows all
// names that end with it. "any" allows all names. Empty text allows none.
func ParseHosts(text string) (Hosts, error) {
	var h Hosts
	for one := range strings.SplitSeq(text, ",") {
		one = strings.ToLower(strings.TrimSpace(one))
		switch {
		case one == "":
		case one == AnyHost:
			h.any = true
		case strings.ContainsAny(one, "/: \t@*"):
			return h, fmt.Errorf("%q is not a host name: write names without port, such as queue.example.test, or .example.test for all below it, or %s",
				one, AnyHost)
		case strings.HasPrefix(one, "."):
			h.suffixes = append(h.suffixes, one)
		default:
			h.add(one)
		}
	}
	return h, nil
}

// Add allows the host of an address host:port.
func (h *Hosts) Add(address string) {
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		h.add(strings.ToLower(host))
	}
}

func (h *Hosts) add(name string) {
	if h.names == nil {
		h.names = make(map[string]bool)
	}
	h.names[name] = true
}

// allows reports whether a request may name the host, which is the value of its Host
// header. A request of HTTP/1.0 has none; browsers always send one.
func (h *Hosts) allows(host string) bool {
	if h.any || host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || h.names[host] {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	for _, suffix := range h.suffixes {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}
