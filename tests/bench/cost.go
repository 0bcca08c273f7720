package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"osqueue/tests/cluster"
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
		used, err := processorTime(n.Pid())
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
	if m.own, err = processorTime(os.Getpid()); err != nil {
		return nil
	}
	status, err := leader.Status()
	if err != nil {
		return nil
	}
	m.entries = status.CommitIndex
	return m
}

// tick is the unit of /proc/PID/stat, which is the same on every Linux that Go supports.
const tick = 10 * time.Millisecond

// processorTime returns the processor time that a process has used.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have any characters; utime and stime are the 12th and 13th
	// field after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("process %d: what is its stat?", pid)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, err
}
