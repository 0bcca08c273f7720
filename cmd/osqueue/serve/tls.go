package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/plane"
	"osqueue/internal/auth/certs"
	"osqueue/internal/auth/enroll"
	"osqueue/internal/limit"
	"osqueue/internal/sleep"
)

// tlsOptions are the flags of the node's certificate.
type tlsOptions struct {
	files    certs.Files
	caKey    string          // "": this node signs no certificates
	identity *certs.Identity // nil: no TLS
	plain    bool            // connections without TLS are accepted as well
	dialer   *plane.Dialer   // to the calls of other nodes
}

// given reports whether the flags name a certificate.
func (o *tlsOptions) given() bool { return o.files != certs.Files{} }

// complete loads the certificate that the flags name, and protects the node's connections
// with it as the mode of --security says.
func (o *tlsOptions) complete(c *cluster.Config, mode string) error {
	if err := o.load(c); err != nil {
		return err
	}
	o.plain = o.identity != nil && mode == core.SecurityLog
	if id := o.identity; id != nil {
		log := c.Logger.Named("tls")
		var told limit.Repeats
		c.Security = plane.Security{
			Accept: id.Server(tls.RequireAndVerifyClientCert, certs.VerifyNode, plane.RaftProtocol, plane.PeerProtocol),
			Dial: func(ctx context.Context, conn net.Conn, address, protocol string) (net.Conn, error) {
				return id.ToNode(ctx, conn, address, protocol)
			},
			Peer:    peerOf,
			Plain:   o.plain,
			Network: c.Security.Network,
			Fallback: func(address string, err error) {
				if _, due := told.Due(address); due {
					log.Warn("a node is called without TLS, which --security=on would not do", "address", address, "reason", err)
				}
			},
		}
	}
	o.dialer = plane.NewDialer(plane.DialerConfig{Security: c.Security, StatusPath: v1.PathStatus})
	c.Client = &http.Client{Timeout: peerTimeout, Transport: &http.Transport{DialContext: o.dialer.DialContext, IdleConnTimeout: peerIdle}}
	return nil
}

// load reads the files of the certificate.
func (o *tlsOptions) load(c *cluster.Config) error {
	f := o.files
	if !o.given() {
		if o.caKey != "" {
			return errors.New("--tls-ca-key: give --tls-ca, --tls-cert and --tls-key too")
		}
		return nil
	}
	if o.caKey != "" {
		if _, err := certs.LoadSigner(f.CA, o.caKey); err != nil {
			return fmt.Errorf("--tls-ca-key: %w", err)
		}
	}
	if f.CA == "" || f.Cert == "" || f.Key == "" {
		return errors.New("--tls-ca, --tls-cert and --tls-key: give all three or none")
	}
	log := c.Logger.Named("tls")
	id, err := certs.Load(f, func(err error) {
		if err != nil {
			log.Error("cannot reload the certificates", "error", err)
			return
		}
		log.Info("changed certificates are in use")
	})
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	if s := id.Subject(); s.Kind != certs.Node || s.Name != c.Name {
		return fmt.Errorf("--tls-cert %s is the certificate of %s, but this is node %s (--name)", f.Cert, s, c.Name)
	}
	o.identity = id
	for _, key := range []string{f.Key, o.caKey} {
		if info, err := os.Stat(key); err == nil && info.Mode().Perm()&0o007 != 0 {
			log.Warn("all users of this machine may read or replace a private key: chmod 600", "file", key, "mode", info.Mode().Perm().String())
		}
	}
	return nil
}

// peerOf returns the node that has opened a connection.
func peerOf(state tls.ConnectionState) (plane.Peer, bool) {
	s, ok := certs.PeerOf(&state)
	if !ok || s.Kind != certs.Node {
		return plane.Peer{}, false
	}
	return plane.Peer{Name: s.Name, Issued: certs.IssuedAt(state.VerifiedChains[0][0])}, true
}

// Bounds of the calls of other nodes. Idle connections are closed before the other node does.
const (
	peerTimeout = 2 * time.Second
	peerIdle    = time.Minute
)

// scheme returns the scheme of the URLs of this cluster's nodes that all clients can use.
func (o *tlsOptions) scheme() string {
	if o.identity == nil || o.plain {
		return "http"
	}
	return "https"
}

// clientTLS returns the configuration of the client port. Clients may show a certificate.
func (o *tlsOptions) clientTLS() *tls.Config {
	if o.identity == nil {
		return nil
	}
	return o.identity.Server(tls.VerifyClientCertIfGiven, nil, "h2", "http/1.1")
}

// expiryWarning is the remaining lifetime of a certificate below which the log warns.
const expiryWarning = 14 * 24 * time.Hour

// watchExpiry warns once a day while the certificate ends soon, and says when it has ended. It returns when ctx
// ends.
func (o *tlsOptions) watchExpiry(ctx context.Context, log hclog.Logger) {
	for {
		left := time.Until(o.identity.Expires())
		switch {
		case left <= 0:
			log.Error("the certificate of this node has expired: the node accepts and opens no connections; "+
				"run osqueue cert renew where ca.key is, and copy the key and the certificate to it", "file", o.files.Cert)
		case left < expiryWarning:
			log.Warn("the certificate of this node ends soon; sign its request with: osqueue cert sign",
				"file", o.files.Cert, "left", left.Round(time.Second).String())
		}
		wait := 24 * time.Hour
		if left > 0 {
			wait = min(wait, left+time.Second)
		}
		if !sleep.For(ctx, wait) {
			return
		}
	}
}

// expiryGauge is the metric for the end of the node's certificate.
func (o *tlsOptions) expiryGauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "osqueue_certificate_expiry_timestamp_seconds",
		Help: "Unix time at which the certificate of this node ends.",
	}, func() float64 { return float64(o.identity.Expires().Unix()) })
}

// openEnrollment makes the parts that give certificates to nodes, if this node has one.
func (s *server) openEnrollment(o *serveOptions, metrics prometheus.Registerer) {
	if o.tls.identity == nil {
		return
	}
	s.enroll = enroll.New(enroll.Config{
		Node: s.node, Files: o.tls.files, Identity: o.tls.identity, Log: s.log.Named("certificates"),
		Site: siteOf(&o.node, o.bucket),
		Audit: func(a enroll.Act) {
			e := core.AuditEntry{Principal: a.Principal, Address: a.Address, Action: a.Action, Object: a.Node, Status: a.Status, Outcome: "ok"}
			if a.Refusal != "" {
				e.Outcome = v1.TagForbidden
			}
			s.api.Record(e)
		},
	})
	s.keeper = &enroll.Keeper{Server: s.enroll, Client: o.node.Client, Name: o.node.Name}
	if o.tls.caKey != "" {
		s.keeper.Signer = func() (*certs.Authority, error) { return certs.LoadSigner(o.tls.files.CA, o.tls.caKey) }
	}
	metrics.MustRegister(collect(func(out sender) { send(out, enrollFigures, s.keeper.Figures()) }))
}

var enrollFigures = []figure[enroll.Figures]{
	counter("certificate_renewals_total", "Renewals of the certificate of this node.", func(f enroll.Figures) float64 { return float64(f.Renewed) }),
	counter("certificate_renewal_failures_total", "Requests for a new certificate of this node that failed.", func(f enroll.Figures) float64 { return float64(f.Failed) }),
	gauge("certificate_renewal_due", "1 while the certificate of this node is in the last third of its life and there is no new one.", func(f enroll.Figures) float64 { return oneIf(f.Waiting) }),
}

// siteOf returns what a new node has to know of this one.
func siteOf(c *cluster.Config, bucket string) enroll.Site {
	addresses := []string{c.HTTPAdvertise}
	named := make([]string, 0, len(c.Peers))
	self := false
	for _, p := range c.Peers {
		if p.Name == "" {
			continue
		}
		named = append(named, p.Name+"="+p.HTTP)
		if p.Name == c.Name {
			self = true
			continue
		}
		addresses = append(addresses, p.HTTP)
	}
	if !self {
		named = append(named, c.Name+"="+c.HTTPAdvertise)
	}
	return enroll.Site{Addresses: addresses, Peers: strings.Join(named, ","), Raft: cmp.Or(c.RaftAdvertise, c.RaftAddr), Bucket: bucket}
}
