package store

import (
	"slices"
	"time"
)

// Fault is a fault of a request on its way to the store and back.
type Fault string

// The faults. Only LostAnswer, LateWrite, GarbageApplied and ErrorApplied leave
// something in the store.
const (
	LostAnswer     Fault = "lost answer"     // applied; the connection breaks
	GarbageApplied Fault = "garbage applied" // applied; 200 with rubbish
	ErrorApplied   Fault = "error applied"   // applied; 500 with a page of HTML
	LateWrite      Fault = "late write"      // the connection breaks; applied some time later
	Cut            Fault = "cut"             // the connection breaks; nothing is applied
	Throttled      Fault = "throttled"       // 429 or 503 SlowDown
	Conflicted     Fault = "conflicted"      // 409 to a conditional write
	Garbage        Fault = "garbage"         // 200 with rubbish
	Error          Fault = "error"           // 500 with a page of HTML
	Truncated      Fault = "truncated"       // the answer breaks off in the middle
	Slow           Fault = "slow"            // a while passes first
	Hung           Fault = "hung"            // no answer until the client gives up
)

// The faults of a store that is away as a whole, for Hits.
const (
	Down    Fault = "down"    // SetDown
	Hanging Fault = "hanging" // SetAway(Hangs)
)

// Target says which requests a fault is for.
type Target func(request) bool

// The targets. Faults that make sense for some requests only pass the others by.
var (
	Document     Target = func(q request) bool { return q.document && q.write } // writes of queue.json
	Writes       Target = func(q request) bool { return q.write }               // of anything
	Reads        Target = func(q request) bool { return !q.write }              // everything else
	Lists        Target = func(q request) bool { return q.list }                // listings
	DocumentRead Target = func(q request) bool { return q.document && !q.write }
)

// hits says whether the fault can happen to such a request.
func (f Fault) hits(q request) bool {
	switch f {
	case LateWrite, LostAnswer, GarbageApplied, ErrorApplied:
		return q.write
	case Conflicted:
		return q.write && q.conditional
	case Truncated:
		return !q.write
	default:
		return true
	}
}

// random are the faults that chance draws from.
var random = []Fault{
	LostAnswer, GarbageApplied, ErrorApplied, LateWrite, Cut, Throttled, Conflicted, Garbage, Error, Truncated, Slow,
}

// possible returns the faults of random that apply to such a request.
func possible(q request) []Fault {
	return slices.DeleteFunc(slices.Clone(random), func(f Fault) bool { return !f.hits(q) })
}

// How long a late write, or a slow answer, that is drawn at random takes at most.
const (
	longestLate = time.Second
	longestSlow = 300 * time.Millisecond
)

// blow is a fault that befalls one request.
type blow struct {
	fault Fault
	wait  time.Duration // of Slow and LateWrite
	turn  int           // which of several refusals
}

// order is a fault that a test has asked for.
type order struct {
	fault  Fault
	target Target
	left   int
}
