package worker

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"osqueue/client/internal/sleep"
)

// claimMax bounds one claim; the next claim asks for the rest of the capacity.
const claimMax = 1000

// capacity decides which jobs are claimed and started. It does not depend on a cluster, a handler
// or a clock. It is safe for concurrent use.
//
// A job uses capacity from its claim until its report was answered, and a slot while its
// handler runs. A claim in flight has its capacity reserved, so that there are never more than
// concurrency + prefetch jobs.
type capacity struct {
	concurrency int
	prefetch    int
	types       []string // to be claimed; none: any
	limits      map[string]int

	wake chan struct{} // has a token after a change that may allow a claim

	mu       sync.Mutex
	held     int
	running  int
	reserved int               // by claims under way
	shares   map[string]*share // of the types that have a limit
	waiting  *list.List        // of *lease: claimed and not started, oldest first
	requests []*claimRequest   // under way
	roundEnd time.Time         // when all claims under way end, if nothing comes
	wide     bool              // the next claim leaves the narrow types out
	stopped  bool
}

// share counts the jobs of a type with a limit.
type share struct{ held, running int }

// claimRequest is a claim for which there is capacity.
type claimRequest struct {
	types  []string // none: any
	max    int
	wait   time.Duration
	narrow bool // max is less than the free capacity, because of a type's limit
}

func newCapacity(cfg Config, types []string) *capacity {
	r := &capacity{
		concurrency: cfg.Concurrency,
		prefetch:    cfg.Prefetch,
		types:       types,
		limits:      cfg.PerType,
		wake:        make(chan struct{}, 1),
		shares:      make(map[string]*share),
		waiting:     list.New(),
	}
	for t := range r.limits {
		r.shares[t] = new(share)
	}
	return r
}

// request returns the next claim request, if one should be sent now, and reserves its capacity
// until granted. A type is in one claim at a time. A claim that starts while another waits at
// the server waits no longer than that one, so that they end together and the next claim names
// all types again.
func (r *capacity) request(now time.Time, pollWait time.Duration) (*claimRequest, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	free := min(r.concurrency+r.prefetch-r.held-r.reserved, claimMax)
	if r.stopped || free <= 0 || !r.worthwhileLocked(free) {
		return nil, false
	}
	if len(r.requests) == 0 {
		r.roundEnd = now.Add(pollWait)
	}
	a := &claimRequest{max: free, wait: max(r.roundEnd.Sub(now), 0)}
	if len(r.requests) > 0 && a.wait == 0 || !r.nameLocked(a, free) {
		return nil, false
	}
	r.requests = append(r.requests, a)
	r.reserved += a.max
	return a, true
}

// requestWithReports returns the claim to send together with the reports on n jobs, whose capacity is
// free after the report, or nil: another claim is under way, or types have limits. The claim
// does not wait.
func (r *capacity) requestWithReports(n int) *claimRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	free := min(r.concurrency+r.prefetch-r.held-r.reserved+n, claimMax)
	if r.stopped || len(r.requests) > 0 || len(r.limits) > 0 || free <= 0 || !r.worthwhileLocked(free) {
		return nil
	}
	a := &claimRequest{types: r.types, max: free}
	r.requests = append(r.requests, a)
	r.reserved += a.max
	return a
}

// worthwhileLocked reports whether a claim is worth a call: while all slots are in use, it is
// when half of the prefetch is free. Smaller claims would only cost more calls.
func (r *capacity) worthwhileLocked(free int) bool {
	return r.running < r.concurrency || 2*free >= r.prefetch
}

// nameLocked chooses the claim's types. Each of them has capacity for all jobs of the claim,
// whichever types the jobs have. So that a type with little capacity does not make all claims
// small, each claim that such a type made small is followed by one without such types.
func (r *capacity) nameLocked(a *claimRequest, free int) bool {
	if len(r.limits) == 0 {
		a.types = r.types
		return len(r.requests) == 0
	}
	var narrow, wide []string
	least := free
	for _, t := range r.types {
		switch n := r.freeOfLocked(t, free); {
		case n <= 0 || slices.ContainsFunc(r.requests, func(a *claimRequest) bool { return slices.Contains(a.types, t) }):
		case n < free:
			narrow, least = append(narrow, t), min(least, n)
		default:
			wide = append(wide, t)
		}
	}
	if r.wide && len(wide) > 0 && len(narrow) > 0 {
		r.wide = false
		a.types, a.wait = wide, 0
		return true
	}
	a.types, a.max, a.narrow = slices.Concat(wide, narrow), least, least < free && len(wide) > 0
	slices.Sort(a.types)
	return len(a.types) > 0
}

// freeOfLocked returns how many more jobs of a type may be claimed. The share of a type in the
// waiting jobs is at most its share in the slots.
func (r *capacity) freeOfLocked(t string, free int) int {
	s := r.shares[t]
	if s == nil {
		return free
	}
	limit := min(r.limits[t], r.concurrency)
	return limit + r.prefetch*limit/r.concurrency - s.held
}

// granted adds the jobs of a claim, and returns the jobs to start now. ok is false if the
// worker stops; then the caller must release the jobs.
func (r *capacity) granted(a *claimRequest, jobs []*lease) (start []*lease, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.wakeUp()
	r.requests = slices.DeleteFunc(r.requests, func(b *claimRequest) bool { return a == b })
	r.reserved -= a.max
	r.held += len(jobs)
	for _, h := range jobs {
		if s := r.shares[h.job.Type]; s != nil {
			s.held++
		}
	}
	if r.stopped {
		return nil, len(jobs) == 0
	}
	if a.narrow && len(jobs) == a.max {
		r.wide = true
	}
	for _, h := range jobs {
		h.element = r.waiting.PushBack(h)
	}
	return r.startLocked(), true
}

// startLocked removes the waiting jobs that get a slot now, and returns them.
func (r *capacity) startLocked() (start []*lease) {
	for e := r.waiting.Front(); e != nil && r.running < r.concurrency; {
		h, next := e.Value.(*lease), e.Next() // it has nothing else
		s := r.shares[h.job.Type]
		if s == nil || s.running < r.limits[h.job.Type] {
			r.takeLocked(h)
			r.running++
			if s != nil {
				s.running++
			}
			start = append(start, h)
		}
		e = next
	}
	return start
}

func (r *capacity) takeLocked(h *lease) {
	r.waiting.Remove(h.element)
	h.element = nil
}

// ended frees the slot of a job whose handler has returned, and returns the jobs to start now.
func (r *capacity) ended(h *lease) (start []*lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	if s := r.shares[h.job.Type]; s != nil {
		s.running--
	}
	start = r.startLocked()
	if len(start) == 0 { // or gone will wake the claimer
		r.wakeUp()
	}
	return start
}

// gone frees the capacity of a job that was reported, or is lost.
func (r *capacity) gone(h *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held--
	if s := r.shares[h.job.Type]; s != nil {
		s.held--
	}
	r.wakeUp()
}

// ahead reports whether jobs wait for a slot and none is free: then no slot waits for the
// report of a job.
func (r *capacity) ahead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting.Len() > 0 && r.running >= r.concurrency
}

// drop removes a waiting job. It returns false if the job no longer waits.
func (r *capacity) drop(h *lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.element == nil {
		return false
	}
	r.takeLocked(h)
	return true
}

// stop prevents further claims and starts, and returns the waiting jobs.
func (r *capacity) stop() (waiting []*lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for e := r.waiting.Front(); e != nil; e = r.waiting.Front() {
		h := e.Value.(*lease) // it has nothing else
		r.takeLocked(h)
		waiting = append(waiting, h)
	}
	return waiting
}

func (r *capacity) wakeUp() { sleep.Wake(r.wake) }
