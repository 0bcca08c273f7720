package cluster

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"osqueue/fsm"
)

// readyHub lets claims wait for an available job. changed wakes as many waiting claims as
// there are new jobs for them, the one that has waited longest first.
//
// A wake-up can get lost. If a claim ends before it has received it, forget passes it to
// the next claim. If a claim has received it and takes no job, or one of another type,
// the rescan of passTime wakes another claim.
type readyHub struct {
	replica  *replica
	sleeping atomic.Int64 // lets the write path skip the lock when no claim waits

	mu     sync.Mutex
	slept  uint64                // number of sleepers so far
	any    *list.List            // of *sleeper without types
	byType map[string]*list.List // of *sleeper
}

type sleeper struct {
	types []string
	since uint64 // a sleeper with a lower value has waited longer
	wake  chan wakeup
	spots []spot
}

// wakeup is a signal that a job of a type is available. sure is false for a wake-up by a
// rescan, which may come without a job.
type wakeup struct {
	jobType string
	sure    bool
}

// spot is a sleeper's element in one list.
type spot struct {
	list *list.List
	elem *list.Element
	name string
}

func newReadyHub(r *replica) *readyHub {
	return &readyHub{replica: r, any: list.New(), byType: make(map[string]*list.List)}
}

// WaitReady returns nil when a claim of these types may find a job; no types means any
// type. It returns ErrNotLeader when this node is not, or ceases to be, the active
// leader, and otherwise the error of ctx.
func (n *Node) WaitReady(ctx context.Context, types []string) error {
	r := n.active()
	if r == nil {
		return ErrNotLeader
	}
	s := n.ready.sleep(types)
	defer n.ready.forget(s)
	if n.holdsReady(types) {
		return nil
	}
	select {
	case <-s.wake:
		return nil
	case <-r.over:
		return ErrNotLeader
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready reports whether a claim of these types would find a job now, or may find one
// because a lease or a schedule is due. In the second case an entry has to let time pass
// first, and the entry that passTime proposes may not be applied yet.
func (n *Node) Ready(types []string) bool {
	r := n.active()
	if r == nil || r.gate.refusal() != nil {
		return n.holdsReady(types)
	}
	now := r.clock.now()
	var ready bool
	n.replica.read(func(m *fsm.Machine) {
		at, ok := m.NextDeadline(r.unreadable)
		ready = m.Ready(types) || ok && at <= now
	})
	return ready
}

// holdsReady reports whether a job of these types is available.
func (n *Node) holdsReady(types []string) (ready bool) {
	n.replica.read(func(m *fsm.Machine) { ready = m.Ready(types) })
	return ready
}

// Remembers reports whether the machine remembers the answer to a claim request, so that
// a repeated request would get the same answer.
func (n *Node) Remembers(worker, requestID string) (known bool) {
	n.replica.read(func(m *fsm.Machine) { known = m.Remembers(worker, requestID) })
	return known
}

func (h *readyHub) sleep(types []string) *sleeper {
	s := &sleeper{types: types, wake: make(chan wakeup, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sleeping.Add(1)
	h.slept++
	s.since = h.slept
	if len(types) == 0 {
		s.spots = []spot{{list: h.any, elem: h.any.PushBack(s)}}
		return s
	}
	for _, t := range types {
		l := h.byType[t]
		if l == nil {
			l = list.New()
			h.byType[t] = l
		}
		s.spots = append(s.spots, spot{list: l, elem: l.PushBack(s), name: t})
	}
	return s
}

// forget removes a sleeper. If it was woken and has not received the wake-up, the next
// sleeper gets it.
func (h *readyHub) forget(s *sleeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sleeping.Add(-1)
	h.takeOutLocked(s)
	select {
	case w := <-s.wake:
		if w.sure {
			h.wakeLocked(w, 1)
		}
	default:
	}
}

func (h *readyHub) takeOutLocked(s *sleeper) {
	for _, p := range s.spots {
		p.list.Remove(p.elem)
		if p.list != h.any && p.list.Len() == 0 {
			delete(h.byType, p.name)
		}
	}
	s.spots = nil
}

// changed wakes one sleeper for each job that an entry has made available, because the
// job arrived or because its type may run more jobs. It runs under the replica's lock.
func (h *readyHub) changed(m *fsm.Machine) {
	if h.sleeping.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m.Wakeups(func(jobType string, n int) {
		h.wakeLocked(wakeup{jobType, true}, n)
	})
}

// wakeLocked wakes up to n sleepers that wait for jobs of the type, the longest first.
func (h *readyHub) wakeLocked(w wakeup, n int) {
	for range n {
		s := h.longestLocked(w.jobType)
		if s == nil {
			return
		}
		h.takeOutLocked(s)
		s.wake <- w
	}
}

// longestLocked returns the sleeper that has waited longest for a job of the type, or
// nil.
func (h *readyHub) longestLocked(jobType string) *sleeper {
	var longest *sleeper
	for _, l := range [...]*list.List{h.byType[jobType], h.any} {
		if l == nil || l.Len() == 0 {
			continue
		}
		if s := l.Front().Value.(*sleeper); longest == nil || s.since < longest.since {
			longest = s
		}
	}
	return longest
}

// rescanMax bounds how many sleepers of a type one rescan wakes, because some of them may
// find no job.
const rescanMax = 64

// rescan wakes sleepers for jobs that are still available although a claim waits for them.
// There are such jobs after a woken claim has ended without claiming, or after a claim of
// several types took a job of another type than the one that woke it.
func (h *readyHub) rescan() {
	if h.sleeping.Load() == 0 {
		return
	}
	h.replica.read(func(m *fsm.Machine) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for name := range h.byType {
			h.wakeLocked(wakeup{jobType: name}, min(m.Claimable(name), rescanMax))
		}
		if name, ok := m.NextType(); ok && h.any.Len() > 0 {
			h.wakeLocked(wakeup{jobType: name}, min(m.Claimable(name), rescanMax))
		}
	})
}
