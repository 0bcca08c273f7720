package election

import (
	"fmt"
	"math"
	"slices"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// Candidate is a raft leader that wants to become the active one.
type Candidate struct {
	Node    string
	Address string // of its HTTP API, as it is written into the document
	Cluster string // made at bootstrap; "" before
	Lineage string // of its machine; "" before the first broker
	Epoch   uint64 // of the last registered broker; 0 before the first
	// LSN has the LSN term of the candidate's leadership and the index that it had
	// applied after the barrier.
	LSN fsm.LSN
	// Applied is the newest entry in its machine, of any term.
	Applied fsm.LSN
	// Populated reports that the machine has jobs or had a lineage at any time.
	Populated bool
	// Fence is what the candidate writes into the document. Its members are the candidate's
	// own nodes.
	Fence document.Fence
	// Adopted is the version of the document whose state the candidate's cluster has adopted,
	// and for which no broker has registered since; "" for none.
	Adopted storage.Version
}

// Action is the next step of a candidate.
type Action int

// The actions. The zero value is Wait, which has no effect.
const (
	Wait     Action = iota // another broker is alive: stay standby and read the document again later
	Create                 // there is no document: Acquire makes one
	TakeOver               // Acquire writes over the document
	Adopt                  // take the document's state over first, then decide again
	StepDown               // a later term wrote the document: check raft's leadership, then wait
	Refuse                 // a person must decide; Reason has the commands
)

// String returns the action's name.
func (a Action) String() string {
	return [...]string{"wait", "create", "take over", "adopt", "step down", "refuse"}[a]
}

// Decision is the result of Decide.
type Decision struct {
	Action
	Leader string // the other broker's address, for Wait and StepDown
	Reason string // for people
}

// Decide compares the document with the candidate. It has the whole policy of the fence
// and no effects. A broker counts as alive until the candidate itself has seen the
// document unchanged for the time that Silence.Of returns.
func Decide(o Observed, me Candidate, s Silence) Decision {
	d := o.Doc
	s = s.Of(d, me)
	switch {
	case d == nil:
		return Decision{Action: Create, Reason: "there is no document yet"}
	case foreignLineage(d, me):
		return refuse(d, me)
	case sameCluster(d, me) && !d.Overtaken:
		return decideWithin(o, me, s.dead())
	case d.Broker != nil && !s.dead() && !onlyRegistered(d, me, s):
		return Decision{Action: Wait, Leader: *d.Broker, Reason: "the document belongs to another broker, which is alive"}
	case sameCluster(d, me):
		return decideWithin(o, me, true) // the other broker could not write the state
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

// onlyRegistered reports whether a legacy broker has registered in a document of the
// candidate's cluster that shows no jobs, which it cannot read, and has not renewed its
// heartbeat since. A legacy broker that is restarted repeatedly registers once per broker
// timeout, so the document never stays unchanged for that long. Both clocks must agree:
// the heartbeat is stale, and this node saw no other version for half of the timeout.
func onlyRegistered(d *document.File, me Candidate, s Silence) bool {
	return sameCluster(d, me) && !d.Viewed && s.For >= s.Timeout/2 && s.stale(d.BrokerHeartbeat)
}

// decideWithin is Decide for a document of the candidate's own cluster. Raft's quorum has
// already elected the leader, so the candidate takes over a document whose whole history
// is in its log without waiting for the broker's death. If the document is ahead of the
// log, then the nodes have lost data, or another cluster runs on a copy of their disks
// and may be alive.
func decideWithin(o Observed, me Candidate, dead bool) Decision {
	h := o.Doc.Header
	if me.has(o) {
		return Decision{Action: TakeOver, Reason: "the document's state is adopted"}
	}
	var unknown string
	ahead := h.Term > me.LSN.Term
	switch registered := h.Registered; {
	case ahead:
		unknown = fmt.Sprintf("node %s wrote the document in term %d, which is after this node's term %d", h.Node, h.Term, me.LSN.Term)
	case h.Index > me.LSN.Index:
		unknown = fmt.Sprintf("the document is at log index %d and this cluster has only %d", h.Index, me.LSN.Index)
	case h.LSN().Compare(me.Applied) > 0:
		// A majority was lost, and the remaining nodes recovered with other entries at
		// these indexes: a higher index proves nothing.
		unknown = fmt.Sprintf("the document is at %s and this cluster at %s, which is of an older term", h.LSN(), me.Applied)
	case registered > me.Epoch:
		unknown = fmt.Sprintf("the document's broker registered with epoch %d, the last one of this cluster with %d", registered, me.Epoch)
	default:
		return Decision{Action: TakeOver, Reason: "the document is this cluster's"}
	}
	switch {
	case dead:
		return Decision{Action: Adopt, Reason: unknown + ": its nodes have lost data, or a copy of their disks was in use"}
	case ahead:
		return Decision{Action: StepDown, Leader: o.Doc.BrokerAddress(), Reason: unknown}
	default:
		return Decision{Action: Wait, Leader: o.Doc.BrokerAddress(), Reason: unknown + ": " + CopyWarning(h.Node, o.Doc.BrokerAddress())}
	}
}

// CopyWarning returns the text that warns of another cluster with this one's identity.
// node and address are those of its leader.
func CopyWarning(node, address string) string {
	return fmt.Sprintf("if node %s at %s is not part of this cluster, a second cluster runs on a copy of its disks: "+
		"stop one of the two and delete the data directories of the copy; otherwise the nodes have lost "+
		"data, and they adopt the document when it has not changed for the broker timeout", node, address)
}

// behind reports whether adopting the document would set this cluster back: its state has
// the document's lineage and is not older. A living cluster that takes a document over
// reaches a higher LSN and a higher epoch. A state adopted from the document of a living
// cluster has that cluster's epoch, and an LSN far ahead, until the next broker
// registers; such a document is adopted again, because that cluster may have continued.
// Only for a repair, which belongs to no cluster, and for an empty state the LSN alone
// decides.
func behind(d *document.File, me Candidate) bool {
	h := d.Header
	if h == nil || d.Overtaken || !me.Populated || h.Lineage == "" || me.Lineage != h.Lineage {
		return false
	}
	return h.LSN().Compare(me.Applied) <= 0 && (h.Cluster == "" || h.Epoch < me.Epoch || h.LSN().IsZero())
}

// has reports whether the candidate's state comes from this version of the document.
func (me *Candidate) has(o Observed) bool { return me.Adopted != "" && me.Adopted == o.Version }

// sameCluster reports whether a node of the candidate's cluster was the last cluster node
// to write. If a legacy broker wrote since, the rule for other brokers applies until it is
// silent. Then the state is still this cluster's: adopting it would lose mutations that were
// answered and not flushed.
func sameCluster(d *document.File, me Candidate) bool {
	return d.Header != nil && me.Cluster != "" && d.Header.Cluster == me.Cluster
}

// foreignLineage reports whether adopting the document would discard a state of another
// history. A state without a lineage has never answered a write. It was adopted from a
// document. If no broker has registered since, the state of a later version of the document
// may replace it.
func foreignLineage(d *document.File, me Candidate) bool {
	if !me.Populated || me.Lineage == d.Lineage() {
		return false
	}
	return me.Lineage != "" || me.Adopted == ""
}

func refuse(d *document.File, me Candidate) Decision {
	return Decision{Action: Refuse, Reason: fmt.Sprintf(
		"this cluster has the state of %s, and the document is of %s: choose one of the two with "+
			"`osqueue restore`, give one of them another bucket or prefix, or start this cluster with empty "+
			"data directories to take the document over",
		lineageName(me.Lineage), lineageName(d.Lineage()))}
}

func lineageName(lineage string) string {
	if lineage == "" {
		return "no lineage"
	}
	return "lineage " + lineage
}

// Silence is a candidate's measurement of how long the document's broker has not written.
type Silence struct {
	// For is the time for which the document has had the same version, by the
	// candidate's monotonic clock and only as far as its own reads show it.
	For time.Duration
	// Timeout is the candidate's broker timeout. Of replaces it by TimeoutOf.
	Timeout time.Duration
	// Wait is the time after which the document's broker counts as dead. Of sets it.
	Wait time.Duration
	// Now is the candidate's wall clock. It never decides alone.
	Now time.Time
}

// LegacyTimeout is the least timeout of a document without header: the broker timeout of the legacy system.
const LegacyTimeout = 10 * time.Second

// forever is the wait for a broker that no silence makes dead.
const forever = time.Duration(math.MaxInt64)

// Of returns s with the timeout and the wait that apply to document d. The leader that wrote d
// counts with the same numbers (leader.Term): it refuses writes after Timeout if d names a
// standby, and after Outage otherwise.
func (s Silence) Of(d *document.File, me Candidate) Silence {
	f := d.Fence()
	s.Timeout = TimeoutOf(d, s.Timeout)
	switch {
	case f.Timeout <= 0:
		s.Wait = s.Timeout
	case slices.Contains(f.Standbys, me.Cluster) || me.replaces(f.Members):
		s.Wait = f.Timeout
	case f.Outage <= 0:
		s.Wait = forever
	default:
		s.Wait = f.Outage
	}
	return s
}

// TimeoutOf returns the broker timeout of document d; without one, it is own, or LegacyTimeout if that is
// longer. nil is no document, for which own counts.
func TimeoutOf(d *document.File, own time.Duration) time.Duration {
	switch f := d.Fence(); {
	case f.Timeout > 0:
		return f.Timeout
	case d == nil:
		return own
	}
	return max(own, LegacyTimeout)
}

// replaces reports whether the candidate's own nodes have the names and the addresses of a
// majority of members. Those processes have ended then, and their cluster has no quorum.
func (me *Candidate) replaces(members []document.Member) bool {
	own := 0
	for _, m := range members {
		if m.Address != "" && slices.Contains(me.Fence.Members, m) {
			own++
		}
	}
	return own > len(members)/2
}

// dead reports whether the document's broker counts as dead.
func (s Silence) dead() bool { return s.Remaining() <= 0 }

// Remaining returns for how long the document has to stay the same version yet until its
// broker counts as dead.
func (s Silence) Remaining() time.Duration { return s.Wait - s.For }

// stale reports whether a heartbeat is too old by the wall clock. It is the rule of the
// legacy brokers.
func (s Silence) stale(heartbeatMs int64) bool {
	return !fresh(heartbeatMs, s.Now.UnixMilli(), s.Timeout.Milliseconds())
}

// Watch measures how long the document has had the same version. It does not depend on
// the clock of the document's broker or on the wall clock of this node. An outage of the
// bucket does not look like the death of the broker: the measurement restarts after a
// failed read, and after a pause in which this node did not read. The zero value is ready
// for use. It is not safe for concurrent use.
type Watch struct {
	version storage.Version
	since   time.Time // the end of the first read of this version; zero: count from the next read
	last    time.Time // the end of the last read
}

// Saw records a successful read that began at asked. It returns the time for which the
// document has been unchanged. pauseMax is the longest time between two reads that does
// not restart the measurement.
func (w *Watch) Saw(o Observed, asked time.Time, pauseMax time.Duration) time.Duration {
	now := time.Now()
	interrupted := w.since.IsZero() || o.Version != w.version || asked.Sub(w.last) > pauseMax
	w.last = now
	if interrupted {
		w.version, w.since = o.Version, now
		return 0
	}
	return asked.Sub(w.since)
}

// Missed records that the document could not be read or written: perhaps its broker could
// not write it either.
func (w *Watch) Missed() { w.since = time.Time{} }

// fresh reports whether a heartbeat counts as alive. A heartbeat in the future does.
func fresh(heartbeat, nowMs, timeoutMs int64) bool {
	return heartbeat >= nowMs-timeoutMs
}
