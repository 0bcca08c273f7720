// Package timers has the actions of the machine that fall due at a time. It decides nothing; package fsm does.
package timers

import (
	"cmp"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// A Timer is an action that falls due at a time. The timer of a lease or worker may be
// earlier than the real deadline, because most heartbeats and changes of leader do not
// move it. When it fires early, the machine moves it to the real deadline. So leases expire in
// the order of their real deadlines, and a machine restored from a snapshot, whose timers
// are exact, behaves the same. This requires that a deadline never moves back: Heartbeat,
// LastSeen and LeasesFrom never decrease, and a shorter WorkerTimeoutMs sets all timers
// of workers again.
type Timer struct {
	At   int64 // ms
	Kind Kind
	Key  string // job id or worker name
}

// Kind is the kind of an action.
type Kind uint8

// The kinds, in the order in which they fire at the same time.
const (
	Due Kind = iota
	Lease
	Worker
	Timeout
	Permit // of a type's rate
	Retain // the oldest completed job of a type is too old
	Resume // the pause of a type ends
	Limit  // the lines of a key open, or nothing of it is left
	Expiry // a job did not start in time
)

// Set has the timers in the order in which they fire.
type Set struct{ *btree.Tree[Timer] }

// New returns an empty set.
func New() Set { return Set{btree.New(byTime)} }

func byTime(a, b Timer) bool {
	if c := cmp.Compare(a.At, b.At); c != 0 {
		return c < 0
	}
	if a.Kind != b.Kind {
		return a.Kind < b.Kind
	}
	return a.Key < b.Key
}

// SetTimeout sets the timer of a running job's timeout, which has a given end.
func (s Set) SetTimeout(j *job.Job, end int64) {
	d := *j.Det
	d.TimerAt = end
	j.Det = &d
	s.Set(Timer{At: end, Kind: Timeout, Key: j.ID})
}

// Expiry sets or deletes the timer of a job that expires.
func (s Set) Expiry(j *job.Job, set bool) {
	switch t := (Timer{At: j.ExpiresAt(), Kind: Expiry, Key: j.ID}); {
	case t.At == 0:
	case set:
		s.Set(t)
	default:
		s.Delete(t)
	}
}

// Move moves a timer from the time *at to another one; 0 is no timer.
func (s Set) Move(at *int64, to int64, kind Kind, key string) {
	if *at == to {
		return
	}
	if *at != 0 {
		s.Delete(Timer{At: *at, Kind: kind, Key: key})
	}
	if *at = to; to != 0 {
		s.Set(Timer{At: to, Kind: kind, Key: key})
	}
}

// LeaseEnd returns the first moment, in ms, at which the lease of a running job has
// expired.
func LeaseEnd(m *fsmpb.Meta, j *job.Job) int64 {
	return job.Later(max(j.Exec.Heartbeat, m.LeasesFromMs), j.Exec.HeldMs, 1)
}

// TimeoutEnd returns when the timeout of a running job ends, in ms. After a takeover its
// worker has time to reach the new leader.
func TimeoutEnd(m *fsmpb.Meta, j *job.Job) int64 {
	end := job.Later(j.Exec.ClaimedAt, j.Det.TimeoutMs)
	if m.LeasesFromMs > j.Exec.ClaimedAt {
		end = max(end, job.Later(m.LeasesFromMs, min(j.Exec.HeldMs, j.Det.TimeoutMs)))
	}
	return end
}
