package client

import (
	"context"
	"strings"
	"sync"
	"time"

	"osqueue/client/internal/sleep"
)

const (
	discoveryTimeout = time.Second
	// leaderlessFor is how long the result "no leader" stays valid. Without it, a
	// client of a cluster behind one address, which never shows its leader, would
	// run a round before every call.
	leaderlessFor = time.Second
	// membersFor is how long the client keeps the list of the members before it asks the leader again.
	membersFor = 30 * time.Second
	// membersMax bounds the list.
	membersMax = 32
)

// target is a server to which attempts are sent.
type target struct {
	url    string
	leader bool   // the server reported that it leads; false: it was next in turn
	term   uint64 // the raft term of the leader
	// gone ends when another server is found to lead in a higher term.
	gone  context.Context
	leave context.CancelFunc
}

func newTarget(url string, leader bool, term uint64) *target {
	gone, leave := context.WithCancel(context.Background())
	return &target{url: url, leader: leader, term: term, gone: gone, leave: leave}
}

// view is the answer of one node to the question which node leads.
type view struct {
	server string
	leader bool
	term   uint64
	// members are the base URLs of the nodes that the cluster has, as far as the client may call them.
	members []string
	err     error
}

// tracker finds and remembers the leader. It is safe for concurrent use.
type tracker struct {
	servers []string
	ask     func(ctx context.Context, server string) view

	mu     sync.Mutex
	leader *target  // nil: unknown
	latest *target  // the last known leader, also after giveUp
	turns  []string // the servers, or the members if no server answers
	nobody bool     // the last round got no answer
	turn   int
	barren time.Time // the end of the last round that found no leader
	// members are those of the newest term in which a node was asked, at the time asked.
	members     []string
	membersTerm uint64
	asked       time.Time
	round       *round // the running round, or nil
	closed      bool
	wg          sync.WaitGroup
	base        context.Context // ends with close
	cancel      context.CancelFunc
}

// round asks all servers once which of them leads. All callers that need the leader
// at that time share it.
type round struct {
	done   chan struct{}
	leader *target // valid when done is closed; nil: no leader found
}

func newTracker(servers []string, ask func(context.Context, string) view) *tracker {
	base, cancel := context.WithCancel(context.Background())
	return &tracker{servers: servers, turns: servers, ask: ask, base: base, cancel: cancel}
}

// close ends the running round and waits for its goroutines.
func (t *tracker) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.wg.Wait()
}

// pick returns the leader, or any server if no leader is found.
func (t *tracker) pick(ctx context.Context) *target {
	if l, fresh := t.known(); l != nil || fresh {
		t.refresh(l)
		return t.orAny(l)
	}
	return t.orAny(t.discover(ctx))
}

// known returns the leader. fresh reports whether a recent round found none.
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
	return newTarget(t.turns[t.turn%len(t.turns)], false, 0)
}

// silent reports whether no server answers, as far as is known, and no member that could be asked.
func (t *tracker) silent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.members) == 0 || t.nobody
}

// giveUp forgets that tgt leads. Calls that already wait for tgt keep waiting,
// because perhaps only one of them failed.
func (t *tracker) giveUp(tgt *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader == tgt {
		t.leader = nil
	}
	t.barren = time.Time{}
}

// moved handles the report of server that the leader is at another address. It starts a round: the
// address may be one that this client must not use.
func (t *tracker) moved(server, leader string) {
	if leader != "" && strings.HasSuffix(server, "/"+leader) {
		return
	}
	t.mu.Lock()
	led := t.leader != nil && t.leader.url == server
	if led {
		t.leader, t.barren = nil, time.Time{}
	}
	t.mu.Unlock()
	if led {
		t.join()
	}
}

// discover starts a round, or joins the running one. It returns nil if no server
// leads, or if ctx ends first.
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

// run asks all servers or, if none of them answers, the other members. It publishes the leader as
// soon as one is found.
func (t *tracker) run(r *round) {
	best, answered := t.askAll(t.servers)
	turns := t.servers
	if !answered {
		t.mu.Lock()
		members := t.members
		t.mu.Unlock()
		if best, answered = t.askAll(members); answered {
			turns = members
		}
	}
	t.mu.Lock()
	t.turns, t.nobody = turns, !answered
	t.mu.Unlock()
	t.settle(r, best)
	close(r.done)
}

// askAll returns the leader's view, and whether any server answered.
func (t *tracker) askAll(servers []string) (best view, answered bool) {
	ctx, cancel := context.WithTimeout(t.base, discoveryTimeout)
	defer cancel()
	views := make(chan view, len(servers))
	for _, s := range servers {
		t.wg.Go(func() { views <- t.learn(t.ask(ctx, s)) })
	}
	return bestView(views, len(servers), t.latestTerm())
}

// learn remembers the members in a view.
func (t *tracker) learn(v view) view {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.err == nil && v.term >= t.membersTerm && 0 < len(v.members) && len(v.members) <= membersMax {
		t.members, t.membersTerm, t.asked = v.members, v.term, time.Now()
	}
	return v
}

// refresh asks a node for the members if the list is old, and does not wait for the answer.
func (t *tracker) refresh(node *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if node == nil || t.closed || time.Since(t.asked) < membersFor {
		return
	}
	t.asked = time.Now()
	t.wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.base, discoveryTimeout)
		defer cancel()
		t.learn(t.ask(ctx, node.url))
	})
}

func (t *tracker) latestTerm() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest == nil {
		return 0
	}
	return t.latest.term
}

// bestView reads n views and returns the leader's. A view with a term of at least
// seen ends the reading. A view with a lower term may come from a node that does
// not know yet that it was deposed, so it counts only after all nodes have
// answered. answered reports whether one of them did.
func bestView(views <-chan view, n int, seen uint64) (best view, answered bool) {
	for range n {
		v := <-views
		if v.err != nil {
			continue
		}
		answered = true
		seen = max(seen, v.term)
		if v.leader && (!best.leader || v.term > best.term) {
			best = v
		}
		if best.leader && best.term >= seen {
			return best, true
		}
	}
	return best, answered
}

// settle publishes the result of round r.
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

// await pauses for d, or until a leader other than not is known. It returns false
// if ctx ended.
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
		if !sleep.For(ctx, min(left, looks.NextBackOff())) {
			return false
		}
	}
}
