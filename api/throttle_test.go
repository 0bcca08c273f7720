package api

import (
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

func TestThrottleStats(t *testing.T) {
	if a := newRig(t).do("GET", v1.PathThrottle, ""); a.status != 200 || string(a.body) != `{"throttling":false}` {
		t.Errorf("without limits: %d %s", a.status, a.body)
	}
	g := newRig(t, func(c *core.Config) {
		c.Throttle = func() v1.ThrottleStats { return v1.ThrottleStats{TotalWrites: 4, DailyWriteCount: 4} }
	})
	const want = `{"totalReads":0,"totalWrites":4,"throttledReads":0,"throttledWrites":0,` +
		`"totalReadDelayMs":0,"totalWriteDelayMs":0,"dailyWriteCount":4,"dailyBudgetExceeded":false}`
	if a := g.do("GET", v1.PathThrottle, ""); a.status != 200 || string(a.body) != want {
		t.Errorf("with limits: %d %s", a.status, a.body)
	}
}
