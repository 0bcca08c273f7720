package main

import (
	"fmt"
	"path/filepath"

	"osqueue/client"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// secureCostMax is how much more processor time the nodes may need for one job, with TLS and
// tokens, than without.
const secureCostMax = 1.15

// security compares a cluster with --security=off and one with TLS and tokens. Both run during
// the whole section, each with a directory as bucket, and take turns.
func (b *bench) security() error {
	return b.withClusterOf(cluster.Options{}, func(off *brokers) error {
		return b.withClusterOf(cluster.Options{TLS: true, Prefix: "s"}, func(on *brokers) error {
			secure, err := client.LoadTLS(filepath.Join(on.CertDir(), certs.CAFile), "", "")
			if err != nil {
				return err
			}
			for _, p := range []client.Protocol{client.ProtocolStream, client.ProtocolHTTP} {
				sides := []*secureSide{
					{brokers: off, name: "off", cfg: client.Config{Servers: off.Servers(), Protocol: p}},
					{brokers: on, name: "TLS and tokens", cfg: client.Config{Servers: on.Servers(), Protocol: p, TLS: secure, Token: on.Token()}},
				}
				if err := b.compareSecurity(p, sides); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// secureSide is one of the clusters that are compared.
type secureSide struct {
	*brokers
	name string
	cfg  client.Config
	c    *client.Client
}

// warm makes the client of a side and opens its connections, so that handshakes do not count.
func (b *bench) warm(s *secureSide, p client.Protocol) (err error) {
	if s.c, err = client.New(s.cfg); err != nil {
		return err
	}
	if _, err := shareClient(s.c, singleClients, b.turn(), sdkLife); err != nil {
		s.c.Close()
		return fmt.Errorf("%s, %s: %w", s.name, p, err)
	}
	return nil
}

func (b *bench) compareSecurity(p client.Protocol, sides []*secureSide) error {
	for _, s := range sides {
		if err := b.warm(s, p); err != nil {
			return err
		}
	}
	defer func() {
		for _, s := range sides {
			s.c.Close()
		}
	}()
	measured, err := b.inTurns(len(sides), func(side int) (rate float64, spent *cost, err error) {
		s := sides[side]
		spent, err = costOf(s.Cluster, s.leader, func() (err error) {
			rate, err = shareClient(s.c, singleClients, b.turn(), sdkLife)
			return err
		})
		if err != nil {
			err = fmt.Errorf("%s, %s: %w", s.name, p, err)
		}
		return rate, spent, err
	})
	if err != nil {
		return err
	}
	off := measured[0]
	for i, s := range measured {
		f := figure{
			Section: "security", Name: fmt.Sprintf("enqueue, claim, complete, %d callers, %s, %s", singleClients, p, sides[i].name),
			Value: s.rate(), Unit: "jobs/s", Beside: s.cost().perJob(s.rate()), Cost: s.cost(),
		}
		if i > 0 {
			more := s.nodesOf(off)
			f.Beside += fmt.Sprintf("; of off: throughput %.2f, CPU of the nodes %.2f", s.rateOf(off), more)
			f = f.atMost(secureCostMax, "CPU of off", more)
		}
		b.report.add(f)
	}
	return nil
}
