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
	any    *list.List            // of *sleeper, without types
	byType map[string]*list.List // of *sleeper
}

type sleeper struct {
	types []string
	wake  chan struct{}
	spots []spot
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
	r := n.reign.Load()
	if r == nil {
		return ErrNotLeader
	}
	s := n.ready.sleep(types)
	defer n.ready.forget(s)
	if n.Ready(types) {
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

// Ready reports whether a claim of these types would find a job now.
func (n *Node) Ready(types []string) (ready bool) {
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
	s := &sleeper{types: types, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sleeping.Add(1)
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
	case <-s.wake:
		for _, t := range s.types {
			h.wakeLocked(t)
		}
		if len(s.types) == 0 {
			h.wakeLocked("")
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

// changed wakes one sleeper for each job that became claimable. It runs under
// the replica's lock.
func (h *readyHub) changed(events []fsm.Event) {
	if h.sleeping.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		if e.Job.Status == fsm.Unclaimed && !e.Removed {
			h.wakeLocked(e.Job.Type)
		}
	}
}

// wakeLocked wakes the longest sleeper that would take a job of this type.
func (h *readyHub) wakeLocked(jobType string) {
	l := h.byType[jobType]
	if l == nil {
		l = h.any
	}
	front := l.Front()
	if front == nil {
		return
	}
	s := front.Value.(*sleeper)
	h.takeOutLocked(s)
	s.wake <- struct{}{}
}

// rouse wakes every sleeper that could have a job now.
func (h *readyHub) rouse(ready func(types []string) bool) {
	if h.sleeping.Load() == 0 {
		return
	}
	for _, s := range h.sleepers() {
		if !ready(s.types) {
			continue
		}
		h.mu.Lock()
		if s.spots != nil {
			h.takeOutLocked(s)
			s.wake <- struct{}{}
		}
		h.mu.Unlock()
	}
}

func (h *readyHub) sleepers() []*sleeper {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*sleeper
	for _, l := range h.byType {
		for e := l.Front(); e != nil; e = e.Next() {
			all = append(all, e.Value.(*sleeper))
		}
	}
	for e := h.any.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*sleeper))
	}
	return all
}
