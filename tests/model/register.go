package model

import (
	"fmt"

	"osqueue/tests/history"
)

// A job as a register: what a single job may do, seen by clients, and nothing else.
// Time is not in it: a lease may be over whenever it lives. (Leases has the time.)

type phase uint8

const (
	absent phase = iota
	waiting
	running
	didComplete
	didDie
	didCancel
	didExpire
)

var phaseNames = [...]string{"absent", "waiting", "running", "completed", "dead", "cancelled", "expired"}

func (p phase) String() string { return phaseNames[p] }

// ending is how the last attempt ended.
type ending uint8

const (
	noEnding ending = iota
	endedWell
	endedBadly
	givenBack
	ranOut
)

// register is the state of one job. It is comparable.
type register struct {
	phase    phase
	token    uint64
	end      ending
	attempts int
	max      int
	stopping bool
	expires  bool // unless it has started
	// unconfirmed: the attempt may be one that did not begin, and so does not count.
	unconfirmed bool
	result      string
	payload     string // "": it is not known
	revision    uint64
}

func (r register) String() string {
	return fmt.Sprintf("%s token %d attempt %d of %d", r.phase, r.token, r.attempts, r.max)
}

// call is an operation on one job, as the register sees it.
type call struct {
	op   *history.Op
	held history.Held // of claims
	// free: it may also have done nothing.
	free bool
	// blind: it happened, and its answer is not known.
	blind bool
}

const defaultAttempts = 3

func attemptsOf(e *history.Op) int {
	if e.MaxAttempts > 0 {
		return e.MaxAttempts
	}
	return defaultAttempts
}

// steps are the states in which a call may leave the job, none if it cannot have
// had its answer.
func steps(from register, c call) []register {
	var to []register
	for _, r := range from.later() {
		if c.free {
			to = append(to, r)
		}
		to = append(to, r.step(c)...)
	}
	return to
}

// later are the states that time alone may lead to.
func (r register) later() []register {
	if r.phase == waiting && r.expires && r.token == 0 {
		gone := r
		gone.phase = didExpire
		return []register{r, gone}
	}
	if r.phase != running {
		return []register{r}
	}
	over := r.back()
	over.end = ranOut
	if r.unconfirmed && !r.stopping {
		given := r
		given.phase, given.attempts, given.end = waiting, r.attempts-1, ranOut
		return []register{r, over, given}
	}
	return []register{r, over}
}

// back is the job after an attempt that ended badly.
func (r register) back() register {
	switch {
	case r.stopping:
		r.phase = didCancel
	case r.attempts >= r.max:
		r.phase = didDie
	default:
		r.phase = waiting
	}
	r.stopping = false
	return r
}

func (r register) step(c call) []register {
	if c.op.Outcome == history.Refused {
		return only(r, r.refuses(c.op))
	}
	switch c.op.Kind {
	case history.Enqueue:
		return only(register{phase: waiting, max: attemptsOf(c.op), payload: c.op.Payload, expires: c.op.Before > 0}, r.phase == absent)
	case history.Claim:
		return r.claimed(c.held)
	case history.Heartbeat:
		possible := r.holds(c.op.Token) && (c.blind || r.stopping == c.op.Stopping)
		r.unconfirmed = false
		return only(r, possible)
	case history.Complete:
		return r.completed(c.op)
	case history.Fail:
		return r.failed(c.op)
	case history.Release:
		return r.released(c.op)
	case history.Cancel:
		return r.cancelled(c)
	case history.Edit:
		return r.edited(c)
	case history.Throttle, history.Step, history.Attach:
		return only(r, r.holds(c.op.Token))
	case history.GetJob:
		return only(r, r.shows(c.op))
	}
	return nil
}

func only(r register, possible bool) []register {
	if !possible {
		return nil
	}
	return []register{r}
}

func (r register) holds(token uint64) bool { return r.phase == running && r.token == token }

// ended reports whether the attempt of that token has ended that way already: then
// the report is answered once more as it was.
func (r register) ended(token uint64, how ending) bool {
	return r.phase != running && r.token == token && r.end == how
}

func (r register) claimed(h history.Held) []register {
	possible := r.phase == waiting && h.Token > r.token && h.Attempt == r.attempts+1 && (h.Payload == "" || r.payload == "" || h.Payload == r.payload)
	r.phase, r.token, r.end, r.attempts, r.unconfirmed = running, h.Token, noEnding, h.Attempt, h.Confirm
	return only(r, possible)
}

func (r register) completed(op *history.Op) []register {
	if r.ended(op.Token, endedWell) {
		return []register{r}
	}
	possible := r.holds(op.Token)
	r.phase, r.end, r.result, r.stopping = didComplete, endedWell, op.Result, false
	return only(r, possible)
}

func (r register) failed(op *history.Op) []register {
	if r.ended(op.Token, endedBadly) {
		return []register{r}
	}
	possible := r.holds(op.Token)
	if op.Permanent {
		r.max = r.attempts
	}
	r = r.back()
	r.end = endedBadly
	return only(r, possible)
}

func (r register) released(op *history.Op) []register {
	if r.ended(op.Token, givenBack) {
		return []register{r}
	}
	possible := r.holds(op.Token)
	r.max++ // the attempt does not count, so it cannot be the last
	r = r.back()
	r.max--
	r.attempts--
	r.end = givenBack
	return only(r, possible)
}

func (r register) cancelled(c call) []register {
	switch r.phase {
	case running:
		r.stopping = true
		return only(r, c.blind || c.op.Stopping)
	case waiting, didCancel:
		r.phase = didCancel
		return only(r, c.blind || !c.op.Stopping)
	default:
		return nil
	}
}

func (r register) edited(c call) []register {
	possible := r.phase == waiting && (c.op.IfRevision == nil || *c.op.IfRevision == r.revision)
	r.payload = c.op.Payload
	r.revision++
	return only(r, possible && (c.blind || c.op.Revision == r.revision))
}

// refuses reports whether the job is one of which such a refusal is the truth.
func (r register) refuses(op *history.Op) bool {
	own := r.token == op.Token && r.phase != absent
	switch op.Tag {
	case notFound:
		return r.phase == absent
	case "stale_token":
		return r.phase != absent && !own
	case "lease_expired":
		return own && r.phase != running && r.end == ranOut
	case "not_running":
		return own && r.phase != running && r.end != ranOut
	case "wrong_status":
		return r.phase == didComplete || r.phase == didDie || r.phase == didExpire || op.Kind == history.Edit && (r.phase == running || r.phase == didCancel)
	case "revised":
		return r.phase == waiting && op.IfRevision != nil && *op.IfRevision != r.revision
	}
	return true // it says nothing about the job
}

// shows reports whether a read can have seen the job so.
func (r register) shows(op *history.Op) bool {
	if r.token != op.Token || r.attempts != op.Attempts {
		return false
	}
	switch op.Status {
	case scheduledStatus, waitingStatus, blockedStatus:
		return r.phase == waiting
	case runningStatus:
		return r.phase == running
	case completed:
		return r.phase == didComplete && r.result == op.Result
	case dead:
		return r.phase == didDie
	case cancelled:
		return r.phase == didCancel
	case expiredStatus:
		return r.phase == didExpire
	}
	return false
}
