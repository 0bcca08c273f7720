package main

import (
	"fmt"
	"os"
	"time"

	"osqueue/tests/measure"
)

// clientRole is the name of this process in reports. It has the clients and the workers.
const clientRole = "client"

// reading holds the counters of the processes at one time.
type reading struct {
	at      time.Time
	roles   []time.Duration // processor time, in the order of the roles; the client is last
	busy    measure.Busy
	entries uint64
	counts  bool // entries is known
}

// read reads all counters.
func read(q queue, roles []role) (r reading, err error) {
	if c, ok := q.(counter); ok {
		if r.entries, err = c.entries(); err != nil {
			return r, err
		}
		r.counts = true
	}
	r.at = time.Now()
	for _, role := range roles {
		var used time.Duration
		for _, pid := range role.pids {
			t, err := measure.ProcessorTime(pid)
			if err != nil {
				return r, err
			}
			used += t
		}
		r.roles = append(r.roles, used)
	}
	own, err := measure.ProcessorTime(os.Getpid())
	if err != nil {
		return r, err
	}
	r.roles = append(r.roles, own)
	r.busy, err = measure.ReadBusy()
	return r, err
}

// usage is the consumption of one trial between two readings.
type usage struct {
	Elapsed time.Duration `json:"elapsed"`
	// CPU is the processor time of each role.
	CPU map[string]time.Duration `json:"cpu"`
	// Entries is the number of log entries. It is 0 if the system does not count them.
	Entries uint64 `json:"entries,omitempty"`
	// Noise is the share of the processors, from 0 to 1, that other programs used.
	Noise float64 `json:"noise"`
}

// since returns the usage from an earlier reading to this one.
func (r reading) since(earlier reading, roles []role) usage {
	u := usage{Elapsed: r.at.Sub(earlier.at), CPU: make(map[string]time.Duration)}
	var all time.Duration
	for i, used := range r.roles {
		name := clientRole
		if i < len(roles) {
			name = roles[i].name
		}
		u.CPU[name] += used - earlier.roles[i]
		all += used - earlier.roles[i]
	}
	u.Noise = earlier.busy.Others(r.busy, all)
	if r.counts && earlier.counts {
		u.Entries = r.entries - earlier.entries
	}
	return u
}

// servers returns the processor time of all server processes.
func (u usage) servers() time.Duration {
	var total time.Duration
	for name, used := range u.CPU {
		if name != clientRole {
			total += used
		}
	}
	return total
}

// memory returns the proportional set size of all server processes, in bytes.
func memory(q queue) (int64, error) {
	var total int64
	n := 0
	for _, role := range q.roles() {
		for _, pid := range role.pids {
			bytes, err := measure.PSS(pid)
			if err != nil {
				return 0, fmt.Errorf("memory of the %s, process %d: %w", role.name, pid, err)
			}
			total += bytes
			n++
		}
	}
	if n == 0 {
		return 0, errNoPids
	}
	return total, nil
}
