package leader

import (
	"sync/atomic"

	"osqueue/election"
	"osqueue/fsm"
)

// Leader acquires the document while this node is raft's leader, and then runs a leader
// term. It lives as long as the node.
type Leader struct {
	*base
	current   atomic.Pointer[Term]       // set while this node answers writes
	state     atomic.Pointer[fenceState] // state of the fence, for Status
	carried   atomic.Pointer[Carried]    // nil: nothing
	watch     election.Watch             // of the document; used by the candidate's goroutine
	announcer announcer                  // used by the candidate's goroutine
	prepared  prepared                   // used by the candidate's goroutine
	campaigns atomic.Pointer[campaignState]
	finding   atomic.Pointer[string] // of the last round of watchHandover; nil: none
	checks    checks
}

// fenceState is one of the Fence constants with its reason.
type fenceState struct{ state, reason string }

// New returns the leader of a node. It does nothing until Run.
func New(cfg Config, do Effects) *Leader {
	n := &Leader{base: &base{cfg: cfg, do: do, log: cfg.Log}}
	n.setFence(FenceFollower, "")
	return n
}

// Fence returns the state of the fence, one of the Fence constants, and its reason.
func (l *Leader) Fence() (state, reason string) {
	if !l.do.Leads() { // a campaign that hangs in the bucket may not have noticed
		return FenceFollower, ""
	}
	f := l.state.Load()
	return f.state, f.reason
}

// DocumentCopies returns the copies of documents that were stored since this process started.
func (l *Leader) DocumentCopies() DocumentCopies {
	if c := l.copies.Load(); c != nil {
		return *c
	}
	return DocumentCopies{}
}

// Carried returns what was carried over since this process started.
func (l *Leader) Carried() Carried {
	if c := l.carried.Load(); c != nil {
		return *c
	}
	return Carried{}
}

// Behind reports whether the clock of the leader term waits for a majority of the clocks
// to agree.
func (l *Leader) Behind() bool {
	r := l.current.Load()
	return r != nil && r.behind.Load()
}

// Applied signals the leader term that m has applied an entry. idle
// marks an entry that needs no flush of its own. The node calls it for each entry, under
// the replica's lock. Applied does not block and calls none of the effects.
func (l *Leader) Applied(m *fsm.Machine, idle bool) {
	l.signal(m, idle)
}

// Restored is like Applied, for a state that replaces the old one as a whole.
func (l *Leader) Restored(m *fsm.Machine) {
	l.signal(m, false)
}

func (l *Leader) signal(m *fsm.Machine, idle bool) {
	if r := l.current.Load(); r != nil {
		r.changed(m, idle)
	}
}
