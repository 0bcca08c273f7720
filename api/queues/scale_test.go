package queues

import (
	"testing"
	"time"
)

func TestWantedJobsAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		load
		want int
	}{
		"idle":                     {load{run: time.Second}, 0},
		"idle without history":     {load{}, 0},
		"no history":               {load{waiting: 100_000}, 1},
		"no history, some run":     {load{waiting: 100_000, running: 3}, 4},
		"no history, all run":      {load{running: 3}, 3},
		"one short job":            {load{waiting: 1, run: time.Millisecond}, 1},
		"exactly the target":       {load{waiting: 120, run: time.Second}, 2},
		"a little more":            {load{waiting: 121, run: time.Second}, 3},
		"running count":            {load{waiting: 118, running: 2, run: time.Second}, 2},
		"longer than the target":   {load{waiting: 5, run: time.Hour}, 5},
		"none is taken from a job": {load{running: 9, run: time.Millisecond}, 9},
		"paused":                   {load{waiting: 5000, running: 2, run: time.Second, paused: true}, 2},
		"limit":                    {load{waiting: 6000, run: time.Second, most: 10}, 10},
		"above the limit":          {load{waiting: 6000, running: 12, run: time.Second, most: 10}, 12},
		"rate":                     {load{waiting: 6000, run: time.Second, rate: 0.5}, 1},
		"a rate below one":         {load{waiting: 6000, run: time.Hour, rate: 0.001}, 1},
		"many and long":            {load{waiting: 1 << 40, run: 1 << 60, rate: 1e6}, 60_000_000},
	} {
		if got := c.wanted(time.Minute); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
