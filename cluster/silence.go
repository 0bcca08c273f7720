package cluster

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/internal/sleep"
)

// A follower calls an election when the leader is silent for longer than the leader's
// heartbeats have ever been apart lately, with a margin (cluster/DESIGN.md, "Failover").
// Config.HeartbeatTimeout is the ceiling of that limit, Config.LeaseTimeout its floor.

const (
	// silenceMargin is the ratio of the limit to the longest gap between two heartbeats.
	silenceMargin = 3
	// silenceHalfLife is the time in which the longest gap counts half.
	silenceHalfLife = 5 * time.Minute
	// silenceBeats is the number of heartbeats before which the ceiling is the limit.
	silenceBeats = 20
	// silenceStagger is the time between the checks of two followers. Without it they would call
	// elections in the same moment and split the votes. It is longer than the longest time
	// between two heartbeats at the floor, and a vote.
	silenceStagger = 75 * time.Millisecond
)

// silence measures the gaps between the heartbeats of the leader. It is safe for concurrent
// use.
type silence struct {
	floor, ceiling time.Duration

	mu      sync.Mutex
	term    uint64        // newest term of a heartbeat
	last    time.Time     // of the newest heartbeat of that term
	beats   int           // heartbeats so far, up to silenceBeats
	longest time.Duration // longest gap, as of at
	at      time.Time
}

// heard records a heartbeat of a term.
func (s *silence) heard(term uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case term < s.term: // that leader was silent for too long, and is not dead
		s.note(s.ceiling, now)
		return
	case term == s.term:
		s.note(now.Sub(s.last), now)
	}
	s.term, s.last = term, now
	s.beats = min(s.beats+1, silenceBeats)
}

// note records a gap between two heartbeats.
func (s *silence) note(gap time.Duration, now time.Time) {
	s.longest, s.at = max(s.decayed(now), min(gap, s.ceiling)), now
}

// decayed returns the longest gap; the older it is, the less it counts.
func (s *silence) decayed(now time.Time) time.Duration {
	age := now.Sub(s.at).Seconds() / silenceHalfLife.Seconds()
	return time.Duration(float64(s.longest) * math.Exp2(-age))
}

// limit returns how long the leader may be silent.
func (s *silence) limit(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beats < silenceBeats {
		return s.ceiling
	}
	return min(max(silenceMargin*s.decayed(now), s.floor), s.ceiling)
}

// watchLeader keeps raft's heartbeat timeout at the limit, and makes raft check it in the moment
// when the leader was silent for so long: by itself raft checks at random times, up to twice the
// timeout later. It runs until the node is closed.
func (n *Node) watchLeader() {
	for {
		if !sleep.For(n.ctx, n.checkLeader()) {
			return
		}
	}
}

// checkLeader makes one check and returns the time until the next one.
func (n *Node) checkLeader() time.Duration {
	s := n.silence
	if n.raft.State() == raft.Leader {
		n.setHeartbeat(s.floor) // it sends at least five heartbeats within the floor
		return s.ceiling
	}
	_, leader := n.raft.LeaderWithID()
	if leader == "" {
		return s.floor
	}
	limit := s.limit(time.Now())
	n.setHeartbeat(limit)
	rank := rankOf(n.raft.GetConfiguration().Configuration(), leader, n.id)
	call := limit + time.Duration(rank)*silenceStagger
	if quiet := time.Since(n.raft.LastContact()); quiet < call {
		return max(call-quiet, time.Millisecond)
	}
	n.hurry(limit)
	return s.ceiling
}

// hurry makes raft check at once whether the leader was silent for the limit. Raft does so when its
// timeout becomes shorter; both values must lie between the floor and the ceiling.
func (n *Node) hurry(limit time.Duration) {
	longer := min(limit+time.Microsecond, n.silence.ceiling)
	if shorter := longer - time.Microsecond; shorter >= n.silence.floor {
		n.reload(longer)
		n.reload(shorter)
	}
}

// setHeartbeat sets raft's heartbeat timeout, unless it is nearly the same.
func (n *Node) setHeartbeat(d time.Duration) {
	if is := n.raft.ReloadableConfig().HeartbeatTimeout; (is - d).Abs() > d/32 {
		n.reload(d)
	}
}

func (n *Node) reload(heartbeat time.Duration) {
	err := n.reloadRaft(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout = heartbeat })
	if err != nil {
		n.log.Warn("cannot change the time after which a silent leader counts as dead", "to", heartbeat, "error", err)
	}
}

// reloadRaft changes raft's configuration.
func (n *Node) reloadRaft(change func(*raft.ReloadableConfig)) error {
	n.reloads.Lock()
	defer n.reloads.Unlock()
	c := n.raft.ReloadableConfig()
	change(&c)
	return n.raft.ReloadConfig(c)
}

// rankOf returns the number of voters other than the leader that call an election before self.
func rankOf(c raft.Configuration, leader, self raft.ServerID) int {
	rank := 0
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter && s.ID != leader && s.ID < self {
			rank++
		}
	}
	return rank
}
