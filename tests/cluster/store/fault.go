package store

import (
	"slices"
	"time"

	"osqueue/internal/storagetest/fault"
)

// Fault is a fault of a request on its way to the store and back.
type Fault string

// The faults. The first ones are those of package fault. Only LoseAnswer, DeliverLate,
// GarbleApplied and ErrorApplied leave something in the store.
const (
	LoseRequest = Fault(fault.LoseRequest) // the connection breaks; nothing is applied
	LoseAnswer  = Fault(fault.LoseAnswer)  // applied; the connection breaks
	DeliverLate = Fault(fault.DeliverLate) // the connection breaks; applied some time later
	Reject      = Fault(fault.Reject)      // 409 to a conditional write
	Throttle    = Fault(fault.Throttle)    // 429 or 503 SlowDown
	Stall       = Fault(fault.Stall)       // no answer until the client gives up
	Slow        = Fault(fault.Slow)        // a while passes first
	Garble      = Fault(fault.Garble)      // 200 with rubbish
	Truncate    = Fault(fault.Truncate)    // the answer breaks off in the middle

	Answered      Fault = "answered"       // with the Answer of a test; nothing is applied
	GarbleApplied Fault = "garble-applied" // applied; 200 with rubbish
	Error         Fault = "error"          // 500 with a page of HTML
	ErrorApplied  Fault = "error-applied"  // applied; 500 with a page of HTML
)

// The faults of a store that is away as a whole, for Hits.
const (
	Down    Fault = "down"    // SetDown
	Hanging Fault = "hanging" // SetAway(Hangs)
	Denied  Fault = "denied"  // Revoke
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
	case DeliverLate, LoseAnswer, GarbleApplied, ErrorApplied:
		return q.write
	case Reject:
		return q.write && q.conditional
	default:
		return true
	}
}

// random are the faults that chance draws from.
var random = []Fault{
	LoseAnswer, GarbleApplied, ErrorApplied, DeliverLate, LoseRequest, Throttle, Reject, Garble, Error, Truncate, Slow,
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
	wait  time.Duration // of Slow and DeliverLate
	turn  int           // which of several refusals

	answer *Answer // of Answered
}

// order is a fault that a test has asked for.
type order struct {
	fault  Fault
	target Target
	left   int
	answer *Answer // of Answered
}

// Answer is an answer that a test has made up.
type Answer struct {
	Status int
	Header map[string]string
	Body   string
}
