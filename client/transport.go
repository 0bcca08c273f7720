package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// newTransport returns a connection pool for many goroutines and few hosts. With
// the default of two idle connections per host, almost every call would open a
// connection. HTTP/2 stays off: calls on one connection would wait for each other's
// lost packets and for one lock.
func newTransport(secure *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            newDialer().DialContext,
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    3 * time.Second,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    512,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
}

// newHTTPClient returns an HTTP client that follows no redirects. A node that
// redirects is not the leader, and the tracker decides which node is asked next.
func newHTTPClient(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// LoadTLS returns the TLS configuration of a client. caFile has the certificates of the
// cluster's CA; "" means the CAs of the system. certFile and keyFile have a client
// certificate and its key; both are "" for a client without one. They are read again for a new
// connection if they have changed, so a renewed certificate needs no restart.
func LoadTLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	if caFile == "" {
		return TLSOf(nil, certFile, keyFile)
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	cfg, err := TLSOf(pem, certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caFile, err)
	}
	return cfg, nil
}

// TLSOf is like LoadTLS with the certificates of the CA in PEM form; nil means the CAs of the
// system.
func TLSOf(ca []byte, certFile, keyFile string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13}
	if ca != nil {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the CA contains no certificate in PEM form")
		}
	}
	if (certFile == "") != (keyFile == "") {
		return nil, errors.New("a client certificate needs its key, and the key its certificate")
	}
	if certFile == "" {
		return cfg, nil
	}
	pair := &certificate{certFile: certFile, keyFile: keyFile}
	if err := pair.load(); err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = pair.choose
	return cfg, nil
}

// certificate is a client certificate in files, which may be replaced.
type certificate struct {
	certFile, keyFile string

	mu     sync.Mutex
	stamp  [2]stamp // of the files that were read
	loaded *tls.Certificate
}

// stamp identifies the version of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// load reads the files.
func (c *certificate) load() error {
	at, err := c.look()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.stamp, c.loaded = at, &pair
	return nil
}

func (c *certificate) look() (at [2]stamp, err error) {
	for i, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return at, err
		}
		at[i] = stamp{info.ModTime(), info.Size()}
	}
	return at, nil
}

// choose returns the certificate for a server, or an empty one if the server wants none of its CA.
// It is for tls.Config.GetClientCertificate.
func (c *certificate) choose(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if pair := c.current(); info.SupportsCertificate(pair) == nil {
		return pair, nil
	}
	return &tls.Certificate{}, nil
}

// current returns the certificate in the files. If they cannot be used, for example because only
// one of them is replaced yet, it returns the previous certificate, and the next call looks again.
func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, err := c.look(); err == nil && at != c.stamp {
		_ = c.load() // the previous certificate stays
	}
	return c.loaded
}
