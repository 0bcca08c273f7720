package client

import (
	"math"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// The largest values stand for "no limit". None must turn over into its contrary.
func TestLimitsThatAreNone(t *testing.T) {
	c := newCluster(t)
	cl := c.client(func(cfg *Config) {
		cfg.AttemptTimeout, cfg.RetryFor, cfg.AckWait = math.MaxInt64, -1, math.MaxInt64
		cfg.MaxAnswerBytes = math.MaxInt64
	})
	c.script("POST "+v1.PathClaim, `{"jobs":[{"jobId":"j","token":7}]}`)
	jobs, err := cl.Claim(bounded(t), ClaimOptions{Worker: "w", Wait: math.MaxInt64, Lease: math.MaxInt64})
	if err != nil || len(jobs) != 1 {
		t.Errorf("%v, %v", jobs, err)
	}
	if _, err := cl.Enqueue(WithAck(bounded(t), AckObject), NewJob{}); err != nil {
		t.Error(err)
	}
}

func TestLongTimesOnTheWire(t *testing.T) {
	const most = math.MaxInt64
	for d, ms := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, most: most / int64(time.Millisecond),
	} {
		if got := inMilliseconds(d); got != ms {
			t.Errorf("%v is sent as %d ms", d, got)
		}
	}
	for ms, d := range map[int64]time.Duration{
		0: 0, 1: time.Millisecond, most / 1_000_000: most / 1_000_000 * time.Millisecond,
		most / 1_000: most, 18_446_744_073_710: most, most: most, -most: -most,
	} {
		if got := milliseconds(ms); got/time.Millisecond != d/time.Millisecond {
			t.Errorf("%d ms are read as %v, want %v", ms, got, d)
		}
	}
	odd := claimedJob(v1.ClaimedJob{LeaseMs: most, LeaseAgeMs: -most, TimeoutMs: 18_446_744_073_710}, "w")
	if year := 366 * 24 * time.Hour; odd.Length < year || odd.Age != 0 || odd.Timeout < year {
		t.Errorf("%+v", odd)
	}
}
