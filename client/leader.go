package client

import (
	"context"
	"sync"
	"time"
)

const (
	discoveryTimeout = time.Second
	// leaderlessFor is for how long a round that found no leader is believed.
	// It spares a cluster behind one address, whose leader never shows, a
	// round of questions before each call.
	leaderlessFor = time.Second
)

// target is a server that attempts go to.
type target struct {
	url    string
	leader bool   // it said so; false: it was simply its turn
	term   uint64 // of the leader
	// gone ends when a leader of a higher term has been found elsewhere.
	gone  context.Context
	leave context.CancelFunc
}

func newTarget(url string, leader bool, term uint64) *target {
	gone, leave := context.WithCancel(context.Background())
	return &target{url: url, leader: leader, term: term, gone: gone, leave: leave}
}

// view is what a node says about itself.
type view struct {
	server string
	leader bool
	term   uint64
	err    error
}

// tracker knows who leads. It is safe for concurrent use.
type tracker struct {
	servers []string
	ask     func(ctx context.Context, server string) view

	mu     sync.Mutex
	leader *target // nil: not known
	latest *target // the last leader known, also after it was given up
	turns  []*target
	turn   int
	barren time.Time // when the last round that found no leader ended
	round  *round    // in flight, or nil
	closed bool
	wg     sync.WaitGroup
	base   context.Context // ends with close
	cancel context.CancelFunc
}

// round is one round of questions, shared by all who wait for it.
type round struct {
	done   chan struct{}
	leader *target // valid when done is closed; nil: none found
}

func newTracker(servers []string, ask func(context.Context, string) view) *tracker {
	base, cancel := context.WithCancel(context.Background())
	t := &tracker{servers: servers, ask: ask, base: base, cancel: cancel}
	for _, s := range servers {
		t.turns = append(t.turns, newTarget(s, false, 0))
	}
	return t
}

// close ends the round in flight and waits for its goroutines.
func (t *tracker) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.wg.Wait()
}

// pick returns the leader, or any server when none is to be found.
func (t *tracker) pick(ctx context.Context) *target {
	if l, fresh := t.known(); l != nil || fresh {
		return t.orAny(l)
	}
	return t.orAny(t.discover(ctx))
}

// known returns the leader; fresh says that there was none a moment ago.
func (t *tracker) known() (leader *target, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leader, time.Since(t.barren) < leaderlessFor
}

func (t *tracker) orAny(l *target) *target {
	if l != nil {
		return l
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	return t.turns[t.turn%len(t.turns)]
}

// giveUp forgets that tgt leads. Calls that wait for it go on waiting: it may
// be just one of them that failed.
func (t *tracker) giveUp(tgt *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader == tgt {
		t.leader = nil
	}
	t.barren = time.Time{}
}

// discover asks all servers who leads, or joins the round in flight. It
// returns nil if nobody does, or ctx ended first.
func (t *tracker) discover(ctx context.Context) *target {
	r := t.join()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return r.leader
	case <-ctx.Done():
		return nil
	}
}

func (t *tracker) join() *round {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	if t.round == nil {
		r := &round{done: make(chan struct{})}
		t.round = r
		t.wg.Go(func() { t.run(r) })
	}
	return t.round
}

// run is a round: as soon as the leader is known those who wait get it.
func (t *tracker) run(r *round) {
	ctx, cancel := context.WithTimeout(t.base, discoveryTimeout)
	views := make(chan view, len(t.servers))
	for _, s := range t.servers {
		t.wg.Go(func() { views <- t.ask(ctx, s) })
	}
	best := bestView(views, len(t.servers), t.latestTerm())
	cancel()
	t.settle(r, best)
	close(r.done)
}

func (t *tracker) latestTerm() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest == nil {
		return 0
	}
	return t.latest.term
}

// bestView reads n views and picks the leader's. One that is not behind
// anything seen ends the reading; one that is behind may come from a node that
// has not noticed its deposal yet, and is taken only if all have answered.
func bestView(views <-chan view, n int, seen uint64) (best view) {
	for range n {
		v := <-views
		if v.err != nil {
			continue
		}
		seen = max(seen, v.term)
		if v.leader && (!best.leader || v.term > best.term) {
			best = v
		}
		if best.leader && best.term >= seen {
			return best
		}
	}
	return best
}

// settle makes the result of round r known.
func (t *tracker) settle(r *round, best view) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round = nil
	if !best.leader {
		t.leader, t.barren = nil, time.Now()
		return
	}
	old := t.latest
	if old != nil && old.url == best.server && old.term == best.term {
		t.leader, r.leader = old, old
		return
	}
	l := newTarget(best.server, true, best.term)
	t.leader, t.latest, r.leader = l, l, l
	if old != nil && old.term < l.term {
		old.leave()
	}
}

// await pauses for d, or until another leader than not is known. It returns
// false if ctx ended.
func (t *tracker) await(ctx context.Context, d time.Duration, not *target) bool {
	until := time.Now().Add(d)
	looks := newPauses()
	looks.MaxInterval = 250 * time.Millisecond
	for {
		if l := t.discover(ctx); l != nil && l != not {
			return true
		}
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err() == nil
		}
		if !sleep(ctx, min(left, looks.NextBackOff())) {
			return false
		}
	}
}
