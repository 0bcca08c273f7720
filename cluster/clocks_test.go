package cluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestAgreement(t *testing.T) {
	const s, year = time.Second, 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		offsets []time.Duration
		self    bool
		voters  int
		want    time.Duration
		ok      bool
	}{
		"alone":                         {nil, true, 1, 0, true},
		"nobody answers":                {nil, true, 3, 0, false},
		"one of two others agrees":      {[]time.Duration{s / 2}, true, 3, 0, true},
		"this clock is wrong":           {[]time.Duration{-year, -year + s/10}, true, 3, -year + s/10, true},
		"another clock is wrong":        {[]time.Duration{year, s / 10}, true, 3, 0, true},
		"all differ":                    {[]time.Duration{year, -year}, true, 3, 0, false},
		"one of two":                    {[]time.Duration{year}, true, 2, 0, false},
		"both of two":                   {[]time.Duration{-s}, true, 2, 0, true},
		"two right and two wrong":       {[]time.Duration{0, year, year}, true, 4, 0, false},
		"three of five":                 {[]time.Duration{year, year, s / 5, -s / 5}, true, 5, 0, true},
		"three of five, and not itself": {[]time.Duration{year, year, year, s / 5}, true, 5, year, true},
		"without a vote":                {[]time.Duration{year, year}, false, 3, year, true},
	} {
		got, ok := agreement(c.offsets, c.self, c.voters)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

// TestReached: a time is accepted if a majority of the clocks are there, within a second.
func TestReached(t *testing.T) {
	own := time.UnixMilli(1_800_000_000_000)
	for name, c := range map[string]struct {
		others []time.Duration
		to     time.Duration
		want   bool
	}{
		"the past":                 {[]time.Duration{0, 0}, -time.Hour, true},
		"one of three is there":    {nil, -time.Hour, false},
		"within the bound":         {[]time.Duration{0}, clockBound - time.Millisecond, true},
		"beyond the bound":         {[]time.Duration{0, 0}, clockBound + time.Second, false},
		"one clock is ahead":       {[]time.Duration{time.Hour, 0}, time.Minute, false},
		"the other two are ahead":  {[]time.Duration{time.Hour, time.Hour}, time.Minute, true},
		"the other two are behind": {[]time.Duration{-time.Hour, -time.Hour}, -time.Minute, false},
	} {
		k := clocks{seen: make(map[raft.ServerID]clockReading), self: true, voters: 3}
		for i, by := range c.others {
			k.seen[raft.ServerID(strconv.Itoa(i))] = clockReading{wall: own.Add(by), at: time.Now()}
		}
		if got := k.reached(own, own.Add(c.to)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
