package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Each node measures how far the wall clocks of the other voters are ahead of its own.
// No node can know that its own clock is right; a leader trusts it for more than the
// time that it has itself seen pass only if a majority of the clocks agree.

const (
	clockInterval = 10 * time.Second // between two measurements
	clockHurry    = time.Second      // the same, while the leader waits for an agreement
	clockFresh    = 3 * clockInterval
	clockPatience = 2 * time.Second // for the answers to one measurement

	// clockBound is how far clocks that agree may lie apart, and the offset from
	// which on the log has an alarm.
	clockBound = time.Second
	// clockTripMax is the round trip from which on an answer says too little.
	clockTripMax = time.Second
)

// clocks has the newest offsets of the other voters. Safe for concurrent use.
type clocks struct {
	mu      sync.Mutex
	seen    map[raft.ServerID]clockReading
	alarmed map[raft.ServerID]bool
	offset  time.Duration // of the time that a majority agrees on, 0 if none does
	agreed  bool
}

// clockReading is what one measurement has found.
type clockReading struct {
	offset time.Duration // ahead of this node's clock, or behind if negative
	at     time.Time     // of the monotonic clock
}

// wall is this node's wall clock, set right by what a majority of the clocks say if
// they agree on another time.
func (n *Node) wall() time.Time {
	n.clocks.mu.Lock()
	defer n.clocks.mu.Unlock()
	return n.cfg.Clock().Add(n.clocks.offset)
}

// clocksAgree reports whether a majority of the voters' clocks agree on wall.
func (n *Node) clocksAgree() bool {
	n.clocks.mu.Lock()
	defer n.clocks.mu.Unlock()
	return n.clocks.agreed
}

// ClockOffset returns how far a member's wall clock is ahead of this node's, if that
// was measured in the last half minute.
func (n *Node) ClockOffset(id raft.ServerID) (offset time.Duration, ok bool) {
	if id == n.id {
		return 0, true
	}
	n.clocks.mu.Lock()
	defer n.clocks.mu.Unlock()
	r, ok := n.clocks.seen[id]
	return r.offset, ok && time.Since(r.at) < clockFresh
}

// watchClocks measures the clocks until the node is closed.
func (n *Node) watchClocks() {
	for {
		n.measureClocks(n.ctx)
		interval := clockInterval
		if r := n.reign.Load(); r != nil && r.behind.Load() {
			interval = clockHurry
		}
		if !sleep(n.ctx, interval) {
			return
		}
	}
}

// measureClocks asks all other voters for their time, at once. A node that does not
// answer in time has no vote.
func (n *Node) measureClocks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	config := n.raft.GetConfiguration().Configuration()
	var wg sync.WaitGroup
	for _, s := range config.Servers {
		address := n.httpAddress(nodeName(s.ID))
		if s.ID == n.id || s.Suffrage != raft.Voter || address == "" {
			continue
		}
		wg.Go(func() {
			if r, ok := n.readClock(ctx, s.ID, address); ok {
				n.noteClock(s.ID, r)
			}
		})
	}
	wg.Wait()
	n.agreeOnTime(config)
}

// readClock asks a node for its time and compares it with this node's at the middle of
// the round trip.
func (n *Node) readClock(ctx context.Context, id raft.ServerID, address string) (r clockReading, ok bool) {
	asked := time.Now()
	who, err := n.ask(ctx, address)
	trip := time.Since(asked)
	if err != nil || who.ServerID != string(id) || who.ClockNs == 0 || trip > clockTripMax {
		return r, false
	}
	here := n.cfg.Clock().Add(-trip / 2)
	return clockReading{offset: time.Duration(who.ClockNs - here.UnixNano()), at: asked}, true
}

// noteClock keeps a reading, and logs when a clock goes wrong or right.
func (n *Node) noteClock(id raft.ServerID, r clockReading) {
	n.clocks.mu.Lock()
	n.clocks.seen[id] = r
	wrong := r.offset.Abs() > clockBound
	changed := wrong != n.clocks.alarmed[id]
	n.clocks.alarmed[id] = wrong
	n.clocks.mu.Unlock()
	switch {
	case changed && wrong:
		n.log.Error("the wall clocks of two nodes differ: check NTP on both", "other", nodeName(id), "other_ahead_by", r.offset.Round(time.Millisecond))
	case changed:
		n.log.Info("the wall clocks of two nodes agree again", "other", nodeName(id), "other_ahead_by", r.offset.Round(time.Millisecond))
	}
}

// agreeOnTime looks for the time that a majority of the voters agree on, and forgets
// who is no voter any more.
func (n *Node) agreeOnTime(config raft.Configuration) {
	n.clocks.mu.Lock()
	defer n.clocks.mu.Unlock()
	var offsets []time.Duration
	self, voters := false, 0
	members := make(map[raft.ServerID]bool)
	for _, s := range config.Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		members[s.ID] = true
		if s.ID == n.id {
			self = true
		} else if r, ok := n.clocks.seen[s.ID]; ok && time.Since(r.at) < clockFresh {
			offsets = append(offsets, r.offset)
		}
	}
	for id := range n.clocks.seen {
		if !members[id] {
			delete(n.clocks.seen, id)
			delete(n.clocks.alarmed, id)
		}
	}
	n.clocks.offset, n.clocks.agreed = agreement(offsets, self, voters)
}

// agreement returns the offset that a majority of voters agree on within clockBound:
// 0 if this node's clock, one of them if self is set, is part of a majority.
func agreement(offsets []time.Duration, self bool, voters int) (offset time.Duration, ok bool) {
	if self {
		offsets = append(offsets, 0)
	}
	need := voters/2 + 1
	slices.Sort(offsets)
	for i := 0; i+need <= len(offsets); i++ {
		first, last := offsets[i], offsets[i+need-1]
		switch {
		case last-first > clockBound:
			continue
		case self && first <= 0 && last >= 0:
			return 0, true
		case !ok:
			offset, ok = offsets[i+need/2], true
		}
	}
	return offset, ok
}
