package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// beating returns a silence that has heard n heartbeats of term 1 at intervals, and the time of the
// last one.
func beating(n int, interval time.Duration) (*silence, time.Time) {
	s := &silence{floor: 250 * time.Millisecond, ceiling: 500 * time.Millisecond}
	now := time.Unix(1_700_000_000, 0)
	for range n {
		now = now.Add(interval)
		s.heard(1, now)
	}
	return s, now
}

func TestLimitOfTheSilence(t *testing.T) {
	for name, c := range map[string]struct {
		beats int
		then  func(s *silence, now time.Time) time.Time
		want  time.Duration
	}{
		"few heartbeats": {silenceBeats - 1, nil, 500 * time.Millisecond},
		"regular":        {silenceBeats, nil, 250 * time.Millisecond},
		"one late": {silenceBeats, func(s *silence, now time.Time) time.Time {
			s.heard(1, now.Add(120*time.Millisecond))
			return now.Add(120 * time.Millisecond)
		}, 360 * time.Millisecond},
		"one very late": {silenceBeats, func(s *silence, now time.Time) time.Time {
			s.heard(1, now.Add(time.Minute))
			return now.Add(time.Minute)
		}, 500 * time.Millisecond},
		"a new leader after a long silence": {silenceBeats, func(s *silence, now time.Time) time.Time {
			s.heard(2, now.Add(time.Minute))
			return now.Add(time.Minute)
		}, 250 * time.Millisecond},
		"the old leader is alive": {silenceBeats, func(s *silence, now time.Time) time.Time {
			s.heard(2, now.Add(300*time.Millisecond))
			s.heard(1, now.Add(310*time.Millisecond))
			return now.Add(310 * time.Millisecond)
		}, 500 * time.Millisecond},
		"a late one is forgotten": {silenceBeats, func(s *silence, now time.Time) time.Time {
			s.heard(1, now.Add(time.Second))
			return now.Add(time.Hour)
		}, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s, now := beating(c.beats, 40*time.Millisecond)
			if c.then != nil {
				now = c.then(s, now)
			}
			if got := s.limit(now); (got - c.want).Abs() > time.Millisecond {
				t.Fatalf("%v, want %v", got, c.want)
			}
		})
	}
}

// A late heartbeat counts half as much after each half-life.
func TestLimitOfTheSilenceDecays(t *testing.T) {
	s, now := beating(silenceBeats, 40*time.Millisecond)
	now = now.Add(160 * time.Millisecond)
	s.heard(1, now)
	before, after := s.limit(now), s.limit(now.Add(silenceHalfLife/4))
	if before != 480*time.Millisecond || after >= before || after <= before/2 {
		t.Fatalf("%v, then %v", before, after)
	}
}

func TestRanksDiffer(t *testing.T) {
	c := raft.Configuration{Servers: []raft.Server{
		{ID: "c", Suffrage: raft.Voter}, {ID: "a", Suffrage: raft.Voter}, {ID: "d", Suffrage: raft.Nonvoter}, {ID: "b", Suffrage: raft.Voter},
	}}
	for leader, want := range map[raft.ServerID]map[raft.ServerID]int{
		"a": {"b": 0, "c": 1}, "b": {"a": 0, "c": 1}, "c": {"a": 0, "b": 1},
	} {
		for self, rank := range want {
			if got := rankOf(c, leader, self); got != rank {
				t.Errorf("with leader %s: %s has rank %d, want %d", leader, self, got, rank)
			}
		}
	}
}
