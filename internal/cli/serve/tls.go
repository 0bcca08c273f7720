package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"osqueue/cluster"
	"osqueue/cluster/transport"
	"osqueue/internal/auth/certs"
)

// tlsOptions are the flags of the node's certificate.
type tlsOptions struct {
	files    certs.Files
	identity *certs.Identity // nil: no TLS
}

func (o *tlsOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.files.CA, "tls-ca", "", "file with the certificates of the cluster's CA (see osqueue cert)")
	f.StringVar(&o.files.Cert, "tls-cert", "", "file with this node's certificate; with it all ports use TLS, and only nodes reach the raft port")
	f.StringVar(&o.files.Key, "tls-key", "", "file with the private key of --tls-cert")
}

// complete loads the certificate that the flags name, and protects the node's connections
// with it.
func (o *tlsOptions) complete(c *cluster.Config) error {
	switch f := o.files; {
	case f == certs.Files{}:
		return nil
	case f.CA == "" || f.Cert == "" || f.Key == "":
		return errors.New("--tls-ca, --tls-cert and --tls-key: give all three or none")
	}
	log := c.Logger.Named("tls")
	id, err := certs.Load(o.files, func(err error) { log.Error("certificates not reloaded", "error", err) })
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	if s := id.Subject(); s.Kind != certs.Node || s.Name != c.Name {
		return fmt.Errorf("--tls-cert %s is the certificate of %s, but this is node %s (--name)", o.files.Cert, s, c.Name)
	}
	o.identity = id
	accept := id.Server(tls.RequireAndVerifyClientCert, certs.VerifyNode, transport.Protocol)
	c.Security = transport.Security{
		Accept: accept,
		Dial: func(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
			return id.ToNode(ctx, conn, address, transport.Protocol)
		},
	}
	c.Client = &http.Client{Timeout: peerTimeout, Transport: &http.Transport{DialContext: o.dialNode}}
	return nil
}

// peerTimeout bounds a call of another node's HTTP API.
const peerTimeout = 2 * time.Second

// dialNode connects to the HTTP port of another node and proves that both are nodes.
func (o *tlsOptions) dialNode(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: peerTimeout, KeepAlive: 15 * time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return o.identity.ToNode(ctx, conn, address, "http/1.1")
}

// dial returns dialNode, or nil without TLS.
func (o *tlsOptions) dial() func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.identity == nil {
		return nil
	}
	return o.dialNode
}

// scheme returns the scheme of the URLs of this cluster's nodes.
func (o *tlsOptions) scheme() string {
	if o.identity == nil {
		return "http"
	}
	return "https"
}

// clientTLS returns the configuration of the client port: clients may show a certificate,
// nodes must.
func (o *tlsOptions) clientTLS() *tls.Config {
	if o.identity == nil {
		return nil
	}
	return o.identity.Server(tls.VerifyClientCertIfGiven, nil, "h2", "http/1.1")
}

// onlyNodes refuses requests that do not come from a node, if the cluster has
// certificates. A client with a certificate may set the clock.
func (o *tlsOptions) onlyNodes(next http.Handler) http.Handler {
	if o.identity == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, ok := certs.PeerOf(r.TLS); !ok || s.Kind != certs.Node && r.URL.Path != cluster.ClockPath {
			http.Error(w, "this path needs the certificate of a node; osqueue cluster clock needs one of a client (--cert)", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// expiryWarning is the remaining lifetime of a certificate below which the log warns.
const expiryWarning = 14 * 24 * time.Hour

// watchExpiry warns once a day while the certificate ends soon. It returns when ctx ends.
func (o *tlsOptions) watchExpiry(ctx context.Context, log hclog.Logger) {
	tick := time.NewTicker(24 * time.Hour)
	defer tick.Stop()
	for {
		if left := time.Until(o.identity.Expires()); left < expiryWarning {
			log.Warn("the certificate of this node ends soon; renew it with: osqueue cert renew",
				"file", o.files.Cert, "left", left.Round(time.Minute))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
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
