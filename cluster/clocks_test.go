package cluster

import (
	"testing"
	"time"
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
