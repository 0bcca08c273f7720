package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"osqueue/fsm"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// simRun is one run: a cluster, its users, and the faults, all derived from a seed.
type simRun struct {
	*simWorld
	r          *rand.Rand // of the sequence of faults
	a          *simCluster
	hidden     *simHidden
	faults     *fault.Bucket
	users      *simUsers
	farJumps   bool
	rivalsHold bool       // rivals hold the feature level until the first cluster is upgraded
	hits       int        // number of faults that had an effect
	missed     []simFault // faults that had none, or were not possible
	begun      time.Time
	lasted     time.Duration

	rivalMu sync.Mutex
	b       *simCluster // the rival, while there is one
}

// newSimRun begins a run with n nodes. spoil wraps the store.
func newSimRun(seed uint64, n int, counts *storagetest.Counts, spoil ...func(storage.Bucket) storage.Bucket) *simRun {
	w := newSimWorld(seed, counts)
	var below storage.Bucket = w.record
	for _, f := range spoil {
		below = f(below)
	}
	hidden := &simHidden{Bucket: below, keys: make(map[string]bool)}
	s := &simRun{simWorld: w, r: w.rand(), hidden: hidden, faults: fault.New(hidden, w.r.Uint64()), begun: time.Now()}
	s.farJumps = seed%3 == 0
	s.a = newSimCluster(w, "a", n, w.weighed(s.faults))
	// A rival that does not hold the level raises it when it takes over: no upgrade is left to
	// play. With remainder 4 the rivals do so, with remainder 2 they hold the level too. Seed 1 is that of
	// scenes, which need the newest level.
	s.a.holdsLevel, s.rivalsHold = seed%5 == 4 || seed%5 == 2, seed%5 == 2
	s.a.startAll()
	return s
}

func (s *simRun) setRival(b *simCluster) {
	s.rivalMu.Lock()
	defer s.rivalMu.Unlock()
	s.b = b
}

func (s *simRun) clusters() []*simCluster {
	s.rivalMu.Lock()
	defer s.rivalMu.Unlock()
	if s.b == nil {
		return []*simCluster{s.a}
	}
	return []*simCluster{s.a, s.b}
}

// calmWait bounds how long a cluster without faults takes to be in order.
const calmWait = 90 * time.Second

// calm waits until the cluster is in order and no fault is active.
func (s *simRun) calm() bool {
	s.a.startAll()
	if err := simAwait(calmWait, s.a.whole); err != nil {
		s.failf("without faults: %v", err)
		return false
	}
	s.counts.One("check: in order after healing")
	return true
}

// await waits until cond returns "", or records what it returns as a violation. It reports which.
func (s *simRun) await(limit time.Duration, cond func() string) bool {
	err := simAwait(limit, cond)
	if err != nil {
		s.failf("%v", err)
	}
	return err == nil
}

// simTries is how often a fault is tried until it has an effect.
const simTries = 3

// play applies all faults to a cluster that users use, and repeats those that had no
// effect: some only hit operations that are seldom under way.
func (s *simRun) play(deck []simFault) {
	s.use(func() {
		for range simTries {
			for len(deck) > 0 && len(s.failed()) == 0 {
				deck = s.round(deck)
			}
			deck, s.missed = s.missed, nil
		}
	})
}

// use runs users of the cluster while act runs, and inspects the result at the end.
func (s *simRun) use(act func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { s.tend(stop) })
	s.users = newSimUsers(s.simWorld, s.clusters)
	if s.calm() {
		act()
	}
	s.finish()
	close(stop)
	wg.Wait()
}

// tend runs the checks until stop is closed.
func (s *simRun) tend(stop <-chan struct{}) {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			s.checkFlushed()
		}
	}
}

// checkFlushed checks the new versions of the document, and that a leader does not say that the bucket has more.
func (s *simRun) checkFlushed() {
	var said fsm.LSN
	if l := s.a.active(); l != nil {
		if term := l.leader.Active(); term != nil {
			said = term.Flushed()
		}
	}
	s.checkDocuments()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && !said.IsZero() {
		s.counts.One("check: what counts as flushed is in the document")
		if said.Compare(s.last.LSN()) > 0 {
			s.failLocked("%s counts as flushed, and the document is at %s", said, s.last.LSN())
		}
	}
}

// round applies one fault, or two that overlap, and waits for a while. It returns the
// remaining faults.
func (s *simRun) round(deck []simFault) (rest []simFault) {
	f, rest := deck[0], deck[1:]
	if f.alone {
		if f.loses && s.farJumps || !s.calm() {
			return rest
		}
		s.suffer(f, nil)
		return rest
	}
	var second *simFault
	if len(rest) > 0 && !rest[0].alone && s.r.IntN(3) == 0 {
		second, rest = &rest[0], rest[1:]
	}
	s.suffer(f, second)
	if s.r.IntN(4) == 0 {
		s.calm()
	}
	return rest
}

// suffer begins a fault and ends it.
func (s *simRun) suffer(f simFault, second *simFault) {
	s.allowAdoption(f.loses)
	s.trace.printf("FAULT %s", f.name)
	end := f.begin(s)
	s.pass(12)
	if second != nil {
		s.suffer(*second, nil)
	}
	if !s.conclude(f.name, end) {
		s.missed = append(s.missed, f)
	}
	s.a.startAll()
	s.pass(5)
}

// conclude ends a fault, and counts whether it had an effect.
func (s *simRun) conclude(name string, end func() string) (hit bool) {
	if end == nil {
		s.counts.One("fault not possible: " + name)
		return false
	}
	proof := end()
	s.trace.printf("END %s: %s", name, proof)
	if proof == "" {
		s.counts.One("fault void: " + name)
		return false
	}
	s.counts.One("fault: " + name)
	s.hits++
	return true
}

func (s *simRun) allowAdoption(may bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mayAdopt = may
}

// pass lets up to most seconds pass, usually few.
func (s *simRun) pass(most float64) {
	time.Sleep(time.Duration(most * s.r.Float64() * s.r.Float64() * float64(time.Second)))
}

// drainWait bounds how long workers take for the remaining jobs.
const drainWait = 5 * time.Minute

// finish ends the users, the producers first, and inspects the result.
func (s *simRun) finish() {
	defer func() {
		s.a.end()
		_ = s.faults.Close()
	}()
	calm := len(s.failed()) == 0 && s.calm()
	close(s.users.produce)
	s.users.producers.Wait() // the last enqueue may be on its way
	if calm {
		s.users.dropSchedule()
		if err := simAwait(drainWait, s.drained); err != nil {
			s.failf("after healing not everything ends: %v", err)
		}
	}
	close(s.users.work)
	s.users.wg.Wait()
	if calm && len(s.failed()) == 0 {
		s.inspect()
	}
	s.lasted = time.Since(s.begun)
}

func (s *simRun) drained() string {
	l := s.a.active()
	if l == nil {
		return "no active leader"
	}
	c := l.View().Counts()
	left := c[fsm.Unclaimed] + c[fsm.Scheduled] + c[fsm.InProgress] + c[fsm.Blocked]
	if left > 0 {
		return fmt.Sprintf("%d jobs have not ended", left)
	}
	return ""
}

// inspect checks nodes, bucket and history at the end of a run.
func (s *simRun) inspect() {
	if err := simAwait(calmWait, s.agree); err != nil {
		s.failf("in the end: %v", err)
		return
	}
	s.counts.One("check: all nodes equal in the end")
	s.checkDocuments()
	report, err := archive.Verify(context.Background(), s.store, DocumentKey)
	if err != nil {
		s.failf("verify the bucket: %v", err)
		return
	}
	for _, p := range report.Problems {
		s.failf("in the bucket: %s", p)
	}
	s.counts.One("check: archive verified")
	s.past(simPastSample)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.ledgers[s.a.name]; l != nil {
		l.finish()
	} else {
		s.failLocked("nothing was applied")
	}
}

// agree returns how the nodes and the bucket differ, or "".
func (s *simRun) agree() string {
	lead := s.a.active()
	if lead == nil {
		return "no active leader"
	}
	v := lead.View()
	sum := v.Hash()
	for _, l := range s.a.lives() {
		o := l.View()
		if o.LSN() != v.LSN() {
			return fmt.Sprintf("%s is at %s, the leader at %s", l.place.name, o.LSN(), v.LSN())
		}
		if o.Hash() != sum {
			s.failf("%s and %s differ at %s", l.place.name, lead.place.name, v.LSN())
		}
	}
	if f := lead.leader.Active(); f == nil || f.Flushed() != v.LSN() {
		return "the bucket is behind"
	}
	return ""
}
