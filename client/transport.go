package client

import (
	"net"
	"net/http"
	"time"
)

// newTransport returns a connection pool for many goroutines and few hosts. With
// the default of two idle connections per host, almost every call would open a
// connection. HTTP/2 stays off: calls on one connection would wait for each other's
// lost packets and for one lock.
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

// newHTTPClient returns an HTTP client that follows no redirects. A node that
// redirects is not the leader, and the tracker decides which node is asked next.
func newHTTPClient(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
