package serve

import (
	"cmp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/internal/auth/certs"
	"osqueue/internal/auth/enroll"
)

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
	metrics.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "osqueue_certificate_renewals_total",
			Help: "Renewals of the certificate of this node.",
		}, func() float64 { return float64(s.keeper.Figures().Renewed) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "osqueue_certificate_renewal_failures_total",
			Help: "Requests for a new certificate of this node that failed.",
		}, func() float64 { return float64(s.keeper.Figures().Failed) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "osqueue_certificate_renewal_due",
			Help: "1 while the certificate of this node is in the last third of its life and there is no new one.",
		}, func() float64 {
			if s.keeper.Figures().Waiting {
				return 1
			}
			return 0
		}),
	)
}

// siteOf returns what a new node has to know of this one.
func siteOf(c *cluster.Config, bucket string) enroll.Site {
	addresses := []string{c.HTTPAdvertise}
	named := make([]string, 0, len(c.Peers))
	for _, p := range c.Peers {
		named = append(named, p.Name+"="+p.HTTP)
		if p.Name != c.Name {
			addresses = append(addresses, p.HTTP)
		}
	}
	if len(named) == 0 {
		named = append(named, c.Name+"="+c.HTTPAdvertise)
	}
	return enroll.Site{Addresses: addresses, Peers: strings.Join(named, ","), Raft: cmp.Or(c.RaftAdvertise, c.RaftAddr), Bucket: bucket}
}
