package main

import (
	"fmt"
	"os"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

// cost is the resource usage of a measurement. It distinguishes a slow cluster from one without
// enough processor time: clients and brokers share the processors.
type cost struct {
	Leader    float64 `json:"leaderCores"`
	Followers float64 `json:"followersCores"` // all together
	Clients   float64 `json:"clientsCores"`
	// Entries is the number of raft entries per second. Group commit makes it smaller than the
	// number of calls.
	Entries float64 `json:"entriesPerSecond"`
}

// String formats the cost on one line.
func (c *cost) String() string {
	return fmt.Sprintf("%.2f cores: leader %.2f, followers %.2f, clients %.2f; %.0f raft entries/s",
		c.Leader+c.Followers+c.Clients, c.Leader, c.Followers, c.Clients, c.Entries)
}

// perJob formats the processor time for one job at a rate.
func (c *cost) perJob(rate float64) string {
	return fmt.Sprintf("CPU µs a job: leader %.0f, followers %.0f, clients %.0f",
		1e6*c.Leader/rate, 1e6*c.Followers/rate, 1e6*c.Clients/rate)
}

// costOf runs fn and returns its cost, or nil on systems other than Linux.
func costOf(c *cluster.Cluster, leader *cluster.Node, fn func() error) (*cost, error) {
	before := readMeters(c, leader)
	if err := fn(); err != nil {
		return nil, err
	}
	after := readMeters(c, leader)
	if before == nil || after == nil {
		return nil, nil
	}
	d := after.at.Sub(before.at)
	cores := func(from, to time.Duration) float64 { return float64(to-from) / float64(d) }
	return &cost{
		Leader:    cores(before.leader, after.leader),
		Followers: cores(before.followers, after.followers),
		Clients:   cores(before.own, after.own),
		Entries:   float64(after.entries-before.entries) / d.Seconds(),
	}, nil
}

// meters are counters that only go up.
type meters struct {
	at                     time.Time
	leader, followers, own time.Duration // of processor time
	entries                uint64
}

func readMeters(c *cluster.Cluster, leader *cluster.Node) *meters {
	m := &meters{at: time.Now()}
	for _, n := range c.Nodes {
		used, err := measure.ProcessorTime(n.Pid())
		if err != nil {
			return nil
		}
		if n == leader {
			m.leader = used
		} else {
			m.followers += used
		}
	}
	var err error
	if m.own, err = measure.ProcessorTime(os.Getpid()); err != nil {
		return nil
	}
	status, err := leader.Status()
	if err != nil {
		return nil
	}
	m.entries = status.CommitIndex
	return m
}
