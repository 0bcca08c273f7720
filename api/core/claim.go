package core

import (
	"osqueue/fsm"
)

// Moment is the time of the answer to a claim, and the earliest time from which leases count.
type Moment struct{ Now, LeasesFrom int64 }

// LeaseAge returns the elapsed part of a job's lease.
func (m Moment) LeaseAge(j *fsm.Job) int64 {
	return max(m.Now-max(j.Execution().Heartbeat, m.LeasesFrom), 0)
}
