package election

import (
	"fmt"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// Candidate is a raft leader that wants to become the active one.
type Candidate struct {
	Node    string
	Address string // of its HTTP API, as it is written into the document
	Cluster string // made at bootstrap; "" before
	Lineage string // of its machine; "" before the first broker
	Epoch   uint64 // of the last broker registered in its machine; 0 before the first
	// LSN is the term of the candidate's leadership (as LSN terms count) and
	// the index that it had applied after the barrier.
	LSN fsm.LSN
	// Applied is the newest entry in its machine, of whatever term.
	Applied fsm.LSN
	// Populated says that the machine holds jobs or ever had a lineage.
	Populated bool
	// Adopted is the version of the document whose state the candidate has
	// adopted in this candidacy; "" for none.
	Adopted storage.Version
}

// Action is what a candidate has to do next.
type Action int

// The actions. The zero value is Wait, which harms nobody.
const (
	Wait     Action = iota // another broker is alive: stay standby, look again later
	Create                 // there is no document: Acquire makes one
	TakeOver               // Acquire writes over the document
	Adopt                  // take the document's state over first, then decide again
	StepDown               // this node is the stale one: give raft's leadership up
	Refuse                 // only a person can decide; Reason says how
)

// String returns the action's name.
func (a Action) String() string {
	return [...]string{"wait", "create", "take over", "adopt", "step down", "refuse"}[a]
}

// Decision is what a document means for a candidate.
type Decision struct {
	Action
	Leader string // the other broker's address, for Wait and StepDown
	Reason string // for people
}

// Decide compares the document with the candidate. It is the whole policy of
// the fence and has no effects. A heartbeat counts as alive up to timeoutMs
// before nowMs, and when it lies in the future.
func Decide(o Observed, me Candidate, nowMs, timeoutMs int64) Decision {
	d := o.Doc
	switch {
	case d == nil:
		return Decision{Action: Create, Reason: "there is no document yet"}
	case foreignLineage(d, me):
		return refuse(d, me)
	case sameCluster(d, me) && !d.Overtaken:
		return decideWithin(o, me)
	case d.Broker != nil && fresh(d.BrokerHeartbeat, nowMs, timeoutMs):
		return Decision{Action: Wait, Leader: *d.Broker, Reason: "the document belongs to another broker, which is alive"}
	case sameCluster(d, me) && d.Large:
		return decideWithin(o, me) // the other could do nothing but register
	case me.has(o):
		return Decision{Action: TakeOver, Reason: "the document's broker is gone and its state is adopted"}
	case behind(d, me):
		return Decision{Action: TakeOver, Reason: fmt.Sprintf(
			"the document is at %s, which is not after this cluster's state (%s): it was repaired, or an old copy was put back",
			d.Header.LSN(), me.Applied)}
	default:
		return Decision{Action: Adopt, Reason: "the document's broker is gone"}
	}
}

// decideWithin is Decide for a document of the candidate's own cluster. Raft's
// quorum has spoken already, so no heartbeat is waited for.
func decideWithin(o Observed, me Candidate) Decision {
	h := o.Doc.Header
	switch {
	case h.Term > me.LSN.Term:
		return Decision{Action: StepDown, Leader: o.Doc.BrokerAddress(), Reason: fmt.Sprintf(
			"node %s wrote the document in term %d, after ours (%d)", h.Node, h.Term, me.LSN.Term)}
	case me.has(o):
		return Decision{Action: TakeOver, Reason: "the document's state is adopted"}
	case h.Index > me.LSN.Index:
		return Decision{Action: Adopt, Reason: fmt.Sprintf(
			"the document is at log index %d and this cluster has only %d: its nodes have lost data", h.Index, me.LSN.Index)}
	case h.LSN().Compare(me.Applied) > 0:
		// A majority was lost, and the rest recovered with other entries in these
		// places: more of them prove nothing.
		return Decision{Action: Adopt, Reason: fmt.Sprintf(
			"the document is at %s and this cluster at %s, which is of an older term: its nodes have lost data", h.LSN(), me.Applied)}
	default:
		return Decision{Action: TakeOver, Reason: "the document is this cluster's"}
	}
}

// behind reports whether adopting the document would take this cluster back: its state
// has the document's lineage and is not older. A living cluster that takes a document over
// comes to a higher LSN and a higher epoch. Only a repair, which belongs to no cluster, and
// an empty state are judged by their LSN alone.
func behind(d *queuefile.Document, me Candidate) bool {
	h := d.Header
	if h == nil || d.Overtaken || !me.Populated || h.Lineage == "" || me.Lineage != h.Lineage {
		return false
	}
	return h.LSN().Compare(me.Applied) <= 0 && (h.Cluster == "" || h.Epoch <= me.Epoch || h.LSN().IsZero())
}

// has reports whether the candidate's state comes from this very version.
func (me *Candidate) has(o Observed) bool { return me.Adopted != "" && me.Adopted == o.Version }

// sameCluster reports whether a node of the candidate's cluster was the last of
// ours to write. If an original broker wrote since, the rule for strangers holds,
// unless the document is large: the state, which that broker could not even read,
// is still this cluster's, and adopting it would throw away what was answered but
// not flushed.
func sameCluster(d *queuefile.Document, me Candidate) bool {
	return d.Header != nil && me.Cluster != "" && d.Header.Cluster == me.Cluster
}

// foreignLineage reports whether adopting the document would throw away a
// state of another history. A state without a lineage has never answered a
// write. It came out of a document that some broker left; if that was in this
// candidacy, it may come out of the document's successor as well.
func foreignLineage(d *queuefile.Document, me Candidate) bool {
	if !me.Populated || me.Lineage == d.Lineage() {
		return false
	}
	return me.Lineage != "" || me.Adopted == ""
}

func refuse(d *queuefile.Document, me Candidate) Decision {
	return Decision{Action: Refuse, Reason: fmt.Sprintf(
		"this cluster holds a state of %s, the document is of %s: "+
			"decide with `osqueue restore` which of the two it shall be, give one of them another bucket or prefix, "+
			"or start this cluster on empty data directories to take the document over",
		lineageName(me.Lineage), lineageName(d.Lineage()))}
}

func lineageName(lineage string) string {
	if lineage == "" {
		return "no lineage"
	}
	return "lineage " + lineage
}
