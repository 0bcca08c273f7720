package cluster

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
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

// leaderWatch makes raft call an election when the leader is silent for the limit.
type leaderWatch struct {
	*silence
	self     raft.ServerID
	raft     *raft.Raft
	settings *raftSettings
	log      hclog.Logger
}

// run keeps raft's heartbeat timeout at the limit, and makes raft check it in the moment when
// the leader was silent for so long: by itself raft checks at random times, up to twice the
// timeout later. It runs until ctx ends.
func (w *leaderWatch) run(ctx context.Context) {
	for sleep.For(ctx, w.check()) {
	}
}

// check makes one check and returns the time until the next one.
func (w *leaderWatch) check() time.Duration {
	if w.raft.State() == raft.Leader {
		w.setHeartbeat(w.floor) // it sends at least five heartbeats within the floor
		return w.ceiling
	}
	_, leader := w.raft.LeaderWithID()
	if leader == "" {
		return w.floor
	}
	limit := w.limit(time.Now())
	w.setHeartbeat(limit)
	rank := rankOf(w.raft.GetConfiguration().Configuration(), leader, w.self)
	call := limit + time.Duration(rank)*silenceStagger
	if quiet := time.Since(w.raft.LastContact()); quiet < call {
		return max(call-quiet, time.Millisecond)
	}
	w.hurry(limit)
	return w.ceiling
}

// hurry makes raft check at once whether the leader was silent for the limit. Raft does so when its
// timeout becomes shorter; both values must lie between the floor and the ceiling.
func (w *leaderWatch) hurry(limit time.Duration) {
	longer := min(limit+time.Microsecond, w.ceiling)
	if shorter := longer - time.Microsecond; shorter >= w.floor {
		w.change(longer)
		w.change(shorter)
	}
}

// setHeartbeat sets raft's heartbeat timeout, unless it is nearly the same.
func (w *leaderWatch) setHeartbeat(d time.Duration) {
	if is := w.raft.ReloadableConfig().HeartbeatTimeout; (is - d).Abs() > d/32 {
		w.change(d)
	}
}

func (w *leaderWatch) change(heartbeat time.Duration) {
	err := w.settings.change(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout = heartbeat })
	if err != nil {
		w.log.Warn("cannot change the time after which a silent leader counts as dead", "to", heartbeat, "error", err)
	}
}

// raftSettings changes raft's configuration, one change at a time.
type raftSettings struct {
	raft *raft.Raft
	mu   sync.Mutex
}

func (s *raftSettings) change(fn func(*raft.ReloadableConfig)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.raft.ReloadableConfig()
	fn(&c)
	return s.raft.ReloadConfig(c)
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
