package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/internal/sleep"
)

// Each node measures how far the wall clocks of the other members are ahead of its own. No
// node can know that its own clock is right. A leader follows its wall clock further than
// the time that it has measured itself only if a majority of the voters' clocks agree. The answers also
// tell the releases of the other members.

const (
	clockInterval = 10 * time.Second // time between two measurements
	clockHurry    = time.Second      // the same, while the leader waits for an agreement
	clockFresh    = 3 * clockInterval
	clockPatience = 2 * time.Second // time for the answers to one measurement

	clockBound = leader.ClockBound // a larger difference is logged as an error
	// clockTripMax is the longest round trip of a measurement that counts.
	clockTripMax = time.Second
)

// clocks measures the clocks of the other voters, and has the newest readings. Safe for
// concurrent use.
type clocks struct {
	self    raft.ServerID
	own     func() time.Time // this node's wall clock
	raft    *raft.Raft
	members *membership.Members
	peers   *membership.Peers
	log     hclog.Logger

	mu      sync.Mutex
	told    map[raft.ServerID]membership.Identity // newest answers of the other members
	seen    map[raft.ServerID]clockReading        // of voters
	alarmed map[raft.ServerID]bool
	votes   bool // this node is a voter
	voters  int
}

// A clockReading is one measurement of another node's wall clock. It advances with this
// node's monotonic clock: an offset from this node's wall clock would become wrong when
// the wall clock jumps.
type clockReading struct {
	wall time.Time
	at   time.Time // when it was read, with the monotonic clock
}

// offset returns how far the other clock is ahead of own, the present reading of this
// node's wall clock.
func (r clockReading) offset(own time.Time) time.Duration {
	return time.Duration(r.wall.UnixNano()-own.UnixNano()) + time.Since(r.at)
}

// wall returns this node's wall clock, corrected if a majority of the clocks agree on
// another time.
func (c *clocks) wall() time.Time {
	own := c.own()
	offset, _ := c.agreement(own)
	return own.Add(offset)
}

// agree reports whether a majority of the voters' clocks agree on the time that wall
// returns.
func (c *clocks) agree() bool {
	_, ok := c.agreement(c.own())
	return ok
}

// agreement returns how far the time that a majority of the voters agree on is ahead of
// own, this node's wall clock. It returns 0 and false if no majority agrees.
func (c *clocks) agreement(own time.Time) (offset time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	offsets := make([]time.Duration, 0, 8)
	for _, r := range c.seen {
		if time.Since(r.at) < clockFresh {
			offsets = append(offsets, r.offset(own))
		}
	}
	return agreement(offsets, c.votes, c.voters)
}

// offset returns how far a member's wall clock is ahead of this node's. ok is false if it
// was not measured in the last 30 s.
func (c *clocks) offset(id raft.ServerID) (offset time.Duration, ok bool) {
	if id == c.self {
		return 0, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.seen[id]
	if !ok || time.Since(r.at) >= clockFresh {
		return 0, false
	}
	return r.offset(c.own()), true
}

// watch measures the clocks every clockInterval, or every clockHurry while hurry says so,
// until ctx ends.
func (c *clocks) watch(ctx context.Context, hurry func() bool) {
	for {
		c.measure(ctx)
		interval := clockInterval
		if hurry() {
			interval = clockHurry
		}
		if !sleep.For(ctx, interval) {
			return
		}
	}
}

// identity returns the newest answer of a member; zero: it has not answered.
func (c *clocks) identity(id raft.ServerID) membership.Identity {
	if id == c.self {
		return c.members.Identity()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told[id]
}

// measure asks all other members for their time, in parallel. If a node does not answer in
// time, its last reading counts until it is older than clockFresh.
func (c *clocks) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	config := c.raft.GetConfiguration().Configuration()
	c.setVoters(config)
	var wg sync.WaitGroup
	for _, s := range config.Servers {
		address := c.members.HTTPAddress(membership.NodeName(s.ID))
		if s.ID == c.self || address == "" {
			continue
		}
		wg.Go(func() {
			if r, ok := c.read(ctx, s.ID, address); ok && s.Suffrage == raft.Voter {
				c.note(s.ID, r)
			}
		})
	}
	wg.Wait()
}

// read asks a node for its time, which counts as that of the middle of the round trip.
func (c *clocks) read(ctx context.Context, id raft.ServerID, address string) (r clockReading, ok bool) {
	asked := time.Now()
	who, err := c.peers.Ask(ctx, address)
	trip := time.Since(asked)
	if err != nil || who.ServerID != string(id) {
		return r, false
	}
	c.mu.Lock()
	c.told[id] = who
	c.mu.Unlock()
	if who.ClockNs == 0 || trip > clockTripMax {
		return r, false
	}
	return clockReading{wall: time.Unix(0, who.ClockNs), at: asked.Add(trip / 2)}, true
}

// note stores a reading, and logs when the clock begins or ceases to differ by more than
// clockBound.
func (c *clocks) note(id raft.ServerID, r clockReading) {
	offset := r.offset(c.own())
	c.mu.Lock()
	c.seen[id] = r
	wrong := offset.Abs() > clockBound
	changed := wrong != c.alarmed[id]
	c.alarmed[id] = wrong
	c.mu.Unlock()
	switch {
	case changed && wrong:
		c.log.Error("the wall clocks of two nodes differ: check NTP on both", "other", membership.NodeName(id), "other_ahead_by", offset.Round(time.Millisecond))
	case changed:
		c.log.Info("the wall clocks of two nodes agree again", "other", membership.NodeName(id), "other_ahead_by", offset.Round(time.Millisecond))
	}
}

// setVoters counts the voters, and drops the readings of nodes that are not voters.
func (c *clocks) setVoters(config raft.Configuration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.votes, c.voters = false, 0
	members := make(map[raft.ServerID]bool)
	maps.DeleteFunc(c.told, func(id raft.ServerID, _ membership.Identity) bool {
		return !slices.ContainsFunc(config.Servers, func(s raft.Server) bool { return s.ID == id })
	})
	for _, s := range config.Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		c.voters++
		members[s.ID] = true
		c.votes = c.votes || s.ID == c.self
	}
	for id := range c.seen {
		if !members[id] {
			delete(c.seen, id)
			delete(c.alarmed, id)
		}
	}
}

// agreement returns an offset on which a majority of the voters agree within clockBound.
// It is 0 if this node is a voter (self) and its clock is part of such a majority.
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
