package fsm

import (
	"math"
	"strconv"

	"osqueue/fsm/btree"
	"osqueue/fsm/tenants"
)

// A timer is an action that falls due at a time. The timer of a lease or worker may be
// earlier than the real deadline, because most heartbeats and changes of leader do not
// move it. When it fires early, the machine moves it to the real deadline. So leases expire in
// the order of their real deadlines, and a machine restored from a snapshot, whose timers
// are exact, behaves the same. This requires that a deadline never moves back: Heartbeat,
// LastSeen and LeasesFrom never decrease, and a shorter WorkerTimeoutMs sets all timers
// of workers again.
type timer struct {
	at   int64 // ms
	kind timerKind
	key  string // job id or worker name
}

// timers has the timers in the order in which they fire.
type timers struct{ *btree.Tree[timer] }

type timerKind uint8

const (
	timerDue timerKind = iota
	timerLease
	timerWorker
	timerTimeout
	timerPermit // of a type's rate
	timerRetain // the oldest completed job of a type is too old
	timerResume // the pause of a type ends
	timerLimit  // the lines of a key open, or nothing of it is left
	timerExpiry // a job did not start in time
)

// fireMax is the largest number of timers that one entry fires, so that no entry delays
// the others for long; the next entry fires the rest. A timer that is only moved does not
// count, because a restored machine has no such timers.
const fireMax = 10_000

// leaseEnd returns the first moment, in ms, at which the lease of a running job has
// expired.
func leaseEnd(m *Meta, j *Job) int64 {
	return later(max(j.Exec.Heartbeat, m.LeasesFromMs), j.Exec.HeldMs, 1)
}

// setTimeout sets the timer of a running job's timeout, which has a given end.
func (x timers) setTimeout(j *Job, end int64) {
	d := *j.Det
	d.TimerAt = end
	j.Det = &d
	x.Set(timer{at: end, kind: timerTimeout, key: j.ID})
}

// expiry sets or deletes the timer of a job that expires.
func (x timers) expiry(j *Job, set bool) {
	switch t := (timer{at: j.ExpiresAt(), kind: timerExpiry, key: j.ID}); {
	case t.at == 0:
	case set:
		x.Set(t)
	default:
		x.Delete(t)
	}
}

// timeoutEnd returns when the timeout of a running job ends, in ms. After a takeover its
// worker has time to reach the new leader.
func timeoutEnd(m *Meta, j *Job) int64 {
	end := later(j.Exec.ClaimedAt, j.Det.TimeoutMs)
	if m.LeasesFromMs > j.Exec.ClaimedAt {
		end = max(end, later(m.LeasesFromMs, min(j.Exec.HeldMs, j.Det.TimeoutMs)))
	}
	return end
}

// move moves a timer from the time *at to another one; 0 is no timer.
func (x timers) move(at *int64, to int64, kind timerKind, key string) {
	if *at == to {
		return
	}
	if *at != 0 {
		x.Delete(timer{at: *at, kind: kind, key: key})
	}
	if *at = to; to != 0 {
		x.Set(timer{at: to, kind: kind, key: key})
	}
}

func printable(worker string) string {
	if worker == Anonymous {
		return "(no name)"
	}
	return tenants.NameFor("", worker)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// later adds durations to a time, all in ms. A sum outside of int64 saturates, so that no
// length of a lease, delay or retention, however large, turns the far future into the
// past.
func later(at int64, durations ...int64) int64 {
	for _, d := range durations {
		sum := at + d
		switch {
		case d > 0 && sum < at:
			sum = math.MaxInt64
		case d < 0 && sum > at:
			sum = math.MinInt64
		}
		at = sum
	}
	return at
}
