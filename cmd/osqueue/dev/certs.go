package dev

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"osqueue/client"
	"osqueue/internal/auth/certs"
)

// makeCerts makes the CA, unless the directory has one, and the certificates of the nodes.
func (o *devOptions) makeCerts(now time.Time) error {
	if o.insecure {
		return nil
	}
	dir := filepath.Join(o.dir, certDir)
	open := func() (*certs.Authority, error) { return certs.LoadAuthority(dir) }
	if _, err := os.Stat(o.cert(certs.CAFile)); errors.Is(err, fs.ErrNotExist) {
		open = func() (*certs.Authority, error) { return certs.CreateAuthority(dir, certs.CALifetime, now) }
	}
	ca, err := open()
	if err != nil {
		return err
	}
	for i := range o.nodes {
		r := certs.Request{Kind: certs.Node, Name: o.name(i), Hosts: []string{"127.0.0.1", "localhost"}, Lifetime: certs.NodeLifetime}
		if _, err := ca.Issue(r, now); err != nil {
			return err
		}
	}
	return nil
}

// client returns a client that watches the nodes. It has no token.
func (o *devOptions) client() (*client.Client, error) {
	cfg := client.Config{Servers: o.servers(), UserAgent: "osqueue-dev"}
	if !o.insecure {
		secure, err := client.LoadTLS(o.cert(certs.CAFile), "", "")
		if err != nil {
			return nil, err
		}
		cfg.TLS = secure
	}
	return client.New(cfg)
}
