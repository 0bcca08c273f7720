package main

import (
	"os"
	"slices"

	"osqueue/tests/cluster"
)

// brokers is the cluster of a section.
type brokers struct {
	*cluster.Cluster
	leader *cluster.Node // when the section began
}

// withBrokers runs measure on a fresh cluster of three, and ends it. It profiles
// the brokers from the beginning.
func (b *bench) withBrokers(section string, measure func(*brokers) error) error {
	return b.withCluster(func(br *brokers) error {
		endProfiles, err := b.startProfiles(section, br)
		if err != nil {
			return err
		}
		err = measure(br)
		endProfiles()
		return err
	})
}

// withCluster is withBrokers for sections that start their profiles themselves, because they
// have to prepare the queue first.
func (b *bench) withCluster(measure func(*brokers) error) error {
	dir, err := os.MkdirTemp("", "osqueue-bench-")
	if err != nil {
		return err
	}
	p := &place{dir: dir}
	defer p.leave()
	forget := onInterrupt(p.leave)
	defer forget()
	return p.guarded(func() error {
		flags := b.serve
		if b.profile != "" {
			flags = append(slices.Clip(flags), "--pprof-addr", "127.0.0.1:0")
		}
		c := cluster.Start(p, cluster.Options{Bucket: b.bucket, Flags: flags})
		br := &brokers{Cluster: c, leader: c.WaitLeader()}
		err := measure(br)
		if err != nil {
			p.failure = err.Error() // the harness then prints the logs of the brokers
		}
		return err
	})
}
