package client

import (
	"net"
	"net/http"
	"time"
)

// newTransport is a connection pool for many goroutines that talk to very few
// hosts, where the usual two idle connections a host would mean a new
// connection for almost every call. HTTP/2 stays off: one connection for all
// calls makes them wait for one another's lost packets and for one lock.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    3 * time.Second,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    512,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// newHTTPClient follows no redirect: a node that sends us elsewhere is not the
// leader, and whom to ask then is not its decision.
func newHTTPClient(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
