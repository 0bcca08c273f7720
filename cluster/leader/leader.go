package leader

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"osqueue/election"
	"osqueue/fsm"
)

func (l *Leader) setFence(state, reason string) {
	l.state.Store(&fenceState{state: state, reason: reason})
}

// Leader acquires the document while this node is raft's leader, and then runs a leader
// term. It lives as long as the node.
type Leader struct {
	*base
	current   atomic.Pointer[Term]       // set while this node answers writes
	state     atomic.Pointer[fenceState] // state of the fence, for Status
	carried   atomic.Pointer[Carried]    // nil: nothing
	watch     election.Watch             // of the document; used by the candidate's goroutine
	announced time.Time                  // when this cluster announced itself last; used by the candidate's goroutine
	prepared  prepared                   // used by the candidate's goroutine
	campaigns atomic.Pointer[campaignState]
	finding   atomic.Pointer[string] // of the last round of watchHandover; nil: none
	checks    singleflight.Group     // tries of the bucket
}

// fenceState is one of the Fence constants with its reason.
type fenceState struct{ state, reason string }

// New returns the leader of a node. It does nothing until Run.
func New(cfg Config, do Effects) *Leader {
	n := &Leader{base: &base{cfg: cfg, do: do, log: cfg.Logger}}
	n.settings.Store(cfg.Settings)
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

// SetSettings replaces Config.Settings, which must not change afterwards. If this node is the active leader, it puts them
// into force; if that fails, they are in force with its next term.
func (l *Leader) SetSettings(ctx context.Context, s *fsm.Settings) error {
	l.settings.Store(s)
	if t := l.current.Load(); t != nil {
		return t.register(ctx)
	}
	return nil
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

// Applied signals the leader term that m has applied an entry, or has a new state as a whole. idle
// marks an entry that needs no flush of its own. The node calls it for each entry, under
// the replica's lock. Applied does not block and calls none of the effects.
func (l *Leader) Applied(m *fsm.Machine, idle bool) {
	if r := l.current.Load(); r != nil {
		r.changed(m, idle)
	}
}

// Carried counts the jobs and records that this cluster had acknowledged and that a document
// that this node adopted lacked, since this process started.
type Carried struct {
	Jobs    int    // carried over
	Ended   int    // jobs of the document that got the end that they had here
	Kept    int    // jobs that were not carried over, only stored as a copy
	Records int    // settings, schedules, tokens, hooks and request keys, only stored as a copy
	Copy    string // key of the newest copy; "" for none
}
