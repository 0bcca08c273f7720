package main

import (
	"slices"

	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

// brokers is the cluster of a section.
type brokers struct {
	*cluster.Cluster
	leader *cluster.Node // when the section began
}

// withBrokers calls run with a fresh cluster of three, and ends it. It profiles
// the brokers from the beginning.
func (b *bench) withBrokers(section string, run func(*brokers) error) error {
	return b.withCluster(func(br *brokers) error {
		endProfiles, err := b.startProfiles(section, br)
		if err != nil {
			return err
		}
		err = run(br)
		endProfiles()
		return err
	})
}

// withCluster is withBrokers for sections that start their profiles themselves, because they
// have to prepare the queue first.
func (b *bench) withCluster(run func(*brokers) error) error {
	return b.withClusterOf(cluster.Options{Bucket: b.bucket}, run)
}

// withClusterOf is withCluster with other options.
func (b *bench) withClusterOf(opt cluster.Options, run func(*brokers) error) error {
	p, err := measure.NewPlace("osqueue-bench-")
	if err != nil {
		return err
	}
	defer p.Leave()
	forget := measure.OnInterrupt("bench", p.Leave)
	defer forget()
	return p.Guarded(func() error {
		opt.Flags = slices.Concat(opt.Flags, b.serve)
		c := cluster.Start(p, opt)
		br := &brokers{Cluster: c, leader: c.WaitLeader()}
		err := run(br)
		if err != nil {
			p.Failure = err.Error() // the harness then prints the logs of the brokers
		}
		return err
	})
}
