package core

import (
	"net"
)

// The connections of a server are bounded, in total and for one address, because each takes
// some 30 KiB. A connection over a bound is accepted nevertheless, so that its client learns
// why it is refused: /healthz, /readyz and /metrics answer on it, any other request gets 503,
// which closes the connection. Further connections are closed at once.

// DefaultConnections is the default of Config.MaxConnections.
const DefaultConnections = 4096

// HostOf returns the address without the port.
func HostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
