package notify

import (
	"container/list"
	"sync"
	"sync/atomic"

	"osqueue/fsm"
)

// Ready lets claims wait for an available job. Applied wakes as many waiting claims as
// there are new jobs for them, the one that has waited longest first. Its methods are safe
// for concurrent use.
//
// A wake-up can get lost. If a claim ends before it has received it, Forget passes it to
// the next claim. If a claim has received it and takes no job, or one of another type,
// Rescan wakes another claim.
type Ready struct {
	sleeping atomic.Int64 // lets the write path skip the lock when no claim waits

	mu     sync.Mutex
	slept  uint64                // number of sleepers so far
	any    *list.List            // of *Sleeper without types
	byType map[string]*list.List // of *Sleeper
}

// Sleeper is a claim that waits for a job.
type Sleeper struct {
	types []string
	since uint64 // a sleeper with a lower value has waited longer
	wake  chan Wakeup
	spots []spot
}

// Wakeup is a signal that a job of a type is available. sure is false for a wake-up by a
// rescan, which may come without a job.
type Wakeup struct {
	jobType string
	sure    bool
}

// spot is a sleeper's element in one list.
type spot struct {
	list *list.List
	elem *list.Element
	name string
}

// NewReady returns a Ready without sleepers.
func NewReady() *Ready { return &Ready{any: list.New(), byType: make(map[string]*list.List)} }

// Sleeping returns the number of sleepers.
func (h *Ready) Sleeping() int { return int(h.sleeping.Load()) }

// Sleep adds a sleeper for the types; no types means any type. The caller then looks for a
// job itself, because one may have come before the call, receives from Woken, and in any
// case calls Forget in the end.
func (h *Ready) Sleep(types []string) *Sleeper {
	s := &Sleeper{types: types, wake: make(chan Wakeup, 1)}
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

// Woken returns the channel on which the sleeper gets at most one wake-up.
func (s *Sleeper) Woken() <-chan Wakeup { return s.wake }

// Forget removes a sleeper. If it was woken and has not received the wake-up, the next
// sleeper gets it.
func (h *Ready) Forget(s *Sleeper) {
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

func (h *Ready) takeOutLocked(s *Sleeper) {
	for _, p := range s.spots {
		p.list.Remove(p.elem)
		if p.list != h.any && p.list.Len() == 0 {
			delete(h.byType, p.name)
		}
	}
	s.spots = nil
}

// Applied wakes one sleeper for each job that the entry that m has applied last made
// available, because the job arrived or because its type may run more jobs. The caller
// holds the lock that guards m.
func (h *Ready) Applied(m *fsm.Machine) {
	if h.sleeping.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m.Wakeups(func(jobType string, n int) {
		h.wakeLocked(Wakeup{jobType, true}, n)
	})
}

// wakeLocked wakes up to n sleepers that wait for jobs of the type, the longest first.
func (h *Ready) wakeLocked(w Wakeup, n int) {
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
func (h *Ready) longestLocked(jobType string) *Sleeper {
	var longest *Sleeper
	for _, l := range [...]*list.List{h.byType[jobType], h.any} {
		if l == nil || l.Len() == 0 {
			continue
		}
		if s := l.Front().Value.(*Sleeper); longest == nil || s.since < longest.since {
			longest = s
		}
	}
	return longest
}

// rescanMax bounds how many sleepers of a type one rescan wakes, because some of them may
// find no job.
const rescanMax = 64

// Rescan wakes sleepers for jobs that are still available although a claim waits for them.
// There are such jobs after a woken claim has ended without claiming, or after a claim of
// several types took a job of another type than the one that woke it. Rescan calls read
// only if a claim waits; read passes the machine under the lock that guards it, and Rescan
// takes its own lock inside.
func (h *Ready) Rescan(read func(func(*fsm.Machine))) {
	if h.sleeping.Load() == 0 {
		return
	}
	read(func(m *fsm.Machine) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for name := range h.byType {
			h.wakeLocked(Wakeup{jobType: name}, min(m.Claimable(name), rescanMax))
		}
		if name, ok := m.NextType(); ok && h.any.Len() > 0 {
			h.wakeLocked(Wakeup{jobType: name}, min(m.Claimable(name), rescanMax))
		}
	})
}
