package notify

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
)

// Ready lets claims wait for an available job. The leader takes waiting claims (Take) and
// puts them into the entry that makes jobs available, behind the mutation that does. For
// each job that is still available after an entry, Applied wakes one waiting claim, which
// its caller then proposes. Both choose the claim that has waited longest. The methods of
// Ready are safe for concurrent use.
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
	parked map[*Sleeper]struct{} // of quiet workers
}

// Sleeper is a claim that waits for a job. It is in the lists of its types until it is
// woken, taken or forgotten.
type Sleeper struct {
	claim  *fsmpb.Mutation // nothing changes it
	types  []string
	since  uint64 // a sleeper with a lower value has waited longer
	wake   chan Wakeup
	answer chan Answer // of the entry for which the sleeper is taken
	spots  []spot      // guarded by Ready.mu; none: it is in no list
	taken  bool        // guarded by Ready.mu; the claim is in an entry, or its answer is not withdrawn yet
}

// Answer is the outcome of a claim that was taken.
type Answer struct {
	Result fsm.Result
	LSN    fsm.LSN
	Err    error // of the entry; the other fields are zero then
}

// Empty reports whether the claim got no job and the machine will not answer it
// differently later: the claim waits on.
func (a *Answer) Empty() bool {
	return a.Err == nil && a.Result.Code == fsm.OK && len(a.Result.Jobs) == 0
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
func NewReady() *Ready {
	return &Ready{any: list.New(), byType: make(map[string]*list.List), parked: make(map[*Sleeper]struct{})}
}

// Sleeping returns the number of sleepers.
func (h *Ready) Sleeping() int { return int(h.sleeping.Load()) }

// Sleep adds a sleeper for a claim. The caller then looks for a job itself, because one
// may have come before the call, waits for Woken and Answered, and in any case calls Forget
// in the end. The claim must not be changed any more.
func (h *Ready) Sleep(claim *fsmpb.Mutation) *Sleeper {
	s := &Sleeper{
		claim: claim, types: claim.GetClaim().GetTypes(),
		wake: make(chan Wakeup, 1), answer: make(chan Answer, 1),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sleeping.Add(1)
	h.slept++
	s.since = h.slept
	h.putInLocked(s)
	return s
}

// putInLocked puts a sleeper into the lists of its types, at its place.
func (h *Ready) putInLocked(s *Sleeper) {
	if len(s.types) == 0 {
		s.spots = []spot{{list: h.any, elem: insert(h.any, s)}}
		return
	}
	for _, t := range s.types {
		l := h.byType[t]
		if l == nil {
			l = list.New()
			h.byType[t] = l
		}
		s.spots = append(s.spots, spot{list: l, elem: insert(l, s), name: t})
	}
}

// insert puts a sleeper behind those that have waited longer. A new sleeper is the last
// one, and one that returns is among the first.
func insert(l *list.List, s *Sleeper) *list.Element {
	if last := l.Back(); last == nil || last.Value.(*Sleeper).since < s.since {
		return l.PushBack(s)
	}
	e := l.Front()
	for e.Value.(*Sleeper).since < s.since {
		e = e.Next()
	}
	return l.InsertBefore(s, e)
}

// Woken returns the channel on which the sleeper gets at most one wake-up.
func (s *Sleeper) Woken() <-chan Wakeup { return s.wake }

// Answered returns the channel on which the sleeper gets an answer each time that it was
// taken.
func (s *Sleeper) Answered() <-chan Answer { return s.answer }

// Withdraw removes a sleeper from the lists, and reports whether that is possible: a taken
// sleeper gets an answer first.
func (h *Ready) Withdraw(s *Sleeper) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takeOutLocked(s)
	return !s.taken
}

// Park takes a sleeper of a quiet worker out of the lists until Applied wakes it, because the
// worker gets jobs again. The caller holds the lock that guards the machine, and has seen that
// the worker is quiet. A taken sleeper stays as it is: it gets an answer first.
func (h *Ready) Park(s *Sleeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(s.spots) == 0 {
		return // taken, or woken
	}
	h.takeOutLocked(s)
	h.parked[s] = struct{}{}
}

// Resume puts a taken sleeper whose answer was empty back at its place. The caller then
// looks for a job, as after Sleep.
func (h *Ready) Resume(s *Sleeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.taken = false
	h.putInLocked(s)
}

// Forget removes a sleeper. If it was woken and has not received the wake-up, the next
// sleeper gets it. If it is taken, its claim is committed although no caller waits for the
// answer, as it is if the caller of a proposal leaves.
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
	delete(h.parked, s)
}

// Take removes the sleepers that have waited longest for a job of the type, until they ask
// for that many jobs together. It takes none whose claim is larger than the rest of bytes.
// The caller puts each claim into an entry, and then calls Deliver once for each.
func (h *Ready) Take(jobType string, jobs, bytes int) (taken []*Sleeper) {
	if h.sleeping.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for jobs > 0 {
		s := h.longestLocked(jobType)
		if s == nil {
			break
		}
		if bytes -= s.claim.SizeVT(); bytes < 0 {
			break
		}
		h.takeOutLocked(s)
		s.taken = true
		taken = append(taken, s)
		jobs -= max(int(s.claim.GetClaim().Max), 1)
	}
	return taken
}

// Claim returns the mutation to propose for a taken sleeper.
func (s *Sleeper) Claim() *fsmpb.Mutation { return s.claim }

// Deliver gives a taken sleeper its answer. It does not block.
func (s *Sleeper) Deliver(a Answer) { s.answer <- a }

// Applied wakes one sleeper for each job that the entry that m has applied last made
// available, because the job arrived or because its type may run more jobs. The caller
// holds the lock that guards m.
func (h *Ready) Applied(m *fsm.Machine) {
	if h.sleeping.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, worker := range m.Turned() {
		h.turnLocked(worker)
	}
	m.Wakeups(func(jobType string, n int) {
		h.wakeLocked(Wakeup{jobType, true}, n)
	})
}

// turnLocked wakes the sleepers of a worker that became quiet, which then park, or that gets jobs
// again. It looks at all sleepers: that is seldom.
func (h *Ready) turnLocked(worker string) {
	var found []*Sleeper
	for s := range h.parked {
		if tenants.Claimant(s.claim) == worker {
			found = append(found, s)
		}
	}
	find := func(l *list.List) {
		for e := l.Front(); e != nil; e = e.Next() {
			if s := e.Value.(*Sleeper); tenants.Claimant(s.claim) == worker && !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
	}
	find(h.any)
	for _, l := range h.byType {
		find(l)
	}
	for _, s := range found {
		h.takeOutLocked(s)
		s.wake <- Wakeup{}
	}
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
