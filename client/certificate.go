package client

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

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
