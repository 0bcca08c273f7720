package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"osqueue/tests/cluster"
)

// cost is what a measurement took of the machine. It tells a cluster that is
// slow from one that gets no time: clients and brokers share the processors.
type cost struct {
	Leader    float64 `json:"leaderCores"`
	Followers float64 `json:"followersCores"` // all together
	Clients   float64 `json:"clientsCores"`
	// Entries is how many raft entries a second were committed. Group commit
	// makes it smaller than the number of calls.
	Entries float64 `json:"entriesPerSecond"`
}

// String says it on one line.
func (c *cost) String() string {
	return fmt.Sprintf("%.2f cores: leader %.2f, followers %.2f, clients %.2f; %.0f raft entries/s",
		c.Leader+c.Followers+c.Clients, c.Leader, c.Followers, c.Clients, c.Entries)
}

// costOf runs fn and says what it took. It is nil where the system does not
// tell, that is, on anything but Linux.
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

// tick is the unit of /proc/PID/stat, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// processorTime is what a process has used so far.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything; utime and stime are the
	// 12th and 13th field behind it.
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
