package cluster

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"osqueue/fsm"
)

// readyHub lets claims sleep until a job arrives. As many sleepers wake as
// there are new jobs for them, the longest sleeper first. A sleeper that takes
// its wake-up and then goes away without claiming would leave a job lying, so
// it passes the wake-up on, and rouse, called now and then, mends the rest.
type readyHub struct {
	replica  *replica
	sleeping atomic.Int64 // lets the write path skip the lock when nobody waits

	mu     sync.Mutex
	slept  uint64                // sleepers so far
	any    *list.List            // of *sleeper, without types
	byType map[string]*list.List // of *sleeper
}

type sleeper struct {
	types []string
	since uint64 // lower: sleeps longer
	wake  chan wakeup
	spots []spot
}

// wakeup is for one job of a type, or, from rouse, perhaps for none.
type wakeup struct {
	jobType string
	sure    bool
}

// spot is a place in one list.
type spot struct {
	list *list.List
	elem *list.Element
	name string
}

func newReadyHub(r *replica) *readyHub {
	return &readyHub{replica: r, any: list.New(), byType: make(map[string]*list.List)}
}

// WaitReady returns when a claim of these types may find a job; no types means
// any. It returns ErrNotLeader when this node is not, or ceases to be, the
// active leader.
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
// because something has fallen due, a lease or a schedule: an entry lets time pass
// first, and the one that does so by itself may be on its way still.
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

// holdsReady reports whether a job of these types waits to be claimed.
func (n *Node) holdsReady(types []string) (ready bool) {
	n.replica.read(func(m *fsm.Machine) { ready = m.Ready(types) })
	return ready
}

// Remembers reports whether the answer to that claim is kept, so that a repeated
// request would get it.
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

// forget ends a sleep. A wake-up that was not taken goes to the next sleeper.
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

// changed wakes one sleeper for each job that became claimable, be it that it
// arrived or that its type may run more. It runs under the replica's lock.
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

// wakeLocked wakes up to n sleepers that would take a job of the type, the
// longest first.
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

// longestLocked is who has slept longest of those that would take a job of the
// type, or nil.
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

// rouseMax bounds how many sleepers of a type are roused at a time: those that
// come in vain should be few.
const rouseMax = 64

// rouse wakes sleepers for jobs that lie there though somebody would take
// them. That is so when a wake-up got lost with its receiver, or when a claim of
// several types took a job of another type than it was woken for.
func (h *readyHub) rouse() {
	if h.sleeping.Load() == 0 {
		return
	}
	h.replica.read(func(m *fsm.Machine) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for name := range h.byType {
			h.wakeLocked(wakeup{jobType: name}, min(m.Claimable(name), rouseMax))
		}
		if name, ok := m.NextType(); ok && h.any.Len() > 0 {
			h.wakeLocked(wakeup{jobType: name}, min(m.Claimable(name), rouseMax))
		}
	})
}
