package cluster

import (
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"osqueue/client"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
)

// secure are the certificates of a cluster.
type secure struct {
	dir    string
	config *tls.Config  // of clients
	token  auth.Secret  // of the role admin
	http   *http.Client // keeps no connections
}

// newSecure makes a CA, and issues the certificates of all nodes.
func newSecure(tb TB, c *Cluster) *secure {
	tb.Helper()
	s := &secure{dir: filepath.Join(c.dir, "certs")}
	a, err := certs.CreateAuthority(s.dir, certs.CALifetime, time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	for _, n := range c.Nodes {
		host, _, err := net.SplitHostPort(n.HTTP)
		if err != nil {
			tb.Fatal(err)
		}
		r := certs.Request{Kind: certs.Node, Name: n.Name, Hosts: []string{host}, Lifetime: certs.NodeLifetime}
		if _, err := a.Issue(r, time.Now()); err != nil {
			tb.Fatal(err)
		}
	}
	s.token = auth.New()
	if err := s.token.Bootstrap().Write(s.file(bootstrapFile)); err != nil {
		tb.Fatal(err)
	}
	s.trust(tb)
	return s
}

// bootstrapFile is the file with the hash of the token.
const bootstrapFile = "bootstrap.json"

// trust reads the CA's certificates.
func (s *secure) trust(tb TB) {
	tb.Helper()
	var err error
	if s.config, err = client.LoadTLS(s.file(certs.CAFile), "", ""); err != nil {
		tb.Fatal(err)
	}
	s.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.config}}
}

func (s *secure) file(name string) string { return filepath.Join(s.dir, name) }

// flags are the flags of the node with that name.
func (s *secure) flags(name string) []string {
	if s == nil {
		return nil
	}
	return []string{
		"--security", "on", "--bootstrap-token", s.file(bootstrapFile),
		"--tls-ca", s.file(certs.CAFile), "--tls-cert", s.file(name + ".crt"), "--tls-key", s.file(name + ".key"),
	}
}

// TrustCA reads the CA's certificates again, for Node.Status and new clients.
func (c *Cluster) TrustCA() {
	c.tb.Helper()
	c.secure.trust(c.tb)
}

// Token returns the admin token of a cluster with Options.TLS.
func (c *Cluster) Token() string { return c.secure.token.Text }

// CertDir returns the directory of the cluster's CA, see Options.TLS.
func (c *Cluster) CertDir() string { return c.secure.dir }

// tokenWorks returns an error while the nodes do not know the token yet.
func (c *Cluster) tokenWorks() error {
	_, err := c.Client.Stats(c.Context(time.Second))
	return err
}
