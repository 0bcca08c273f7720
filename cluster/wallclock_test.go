package cluster

import (
	"testing"
	"time"
)

// ahead sets a wall clock that is ahead by d.
func ahead(d time.Duration) func(*Config) {
	return func(c *Config) { c.Clock = func() time.Time { return time.Now().Add(d) } }
}

// A leader uses the clock of its configuration for the machine's time and for the
// heartbeat in the document.
func TestLeaderFollowsTheConfiguredClock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, ahead(24*time.Hour))...)
	l.enqueue(n, "a")
	least := time.Now().Add(23 * time.Hour).UnixMilli()
	if got := n.Now(); got < least {
		t.Errorf("the leader's clock stands at %v", time.UnixMilli(got))
	}
	if got := n.Job("a").CreatedAt; got < least {
		t.Errorf("the job was made at %v", time.UnixMilli(got))
	}
	if got := l.document().BrokerHeartbeat; got < least {
		t.Errorf("the document's heartbeat is of %v", time.UnixMilli(got))
	}
}
