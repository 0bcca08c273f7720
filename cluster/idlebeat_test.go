package cluster

import (
	"fmt"
	"testing"
	"time"
)

// idleBeat is the idle heartbeat in these tests.
const idleBeat = time.Minute

// writesIn returns how many versions of the document were accepted in d.
func writesIn(w *simWorld, d time.Duration) int {
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.accepted)
	}
	before := count()
	time.Sleep(d)
	return count() - before
}

// beatScene runs three nodes with an idle heartbeat, and a cluster b that is not started.
func beatScene(t *testing.T, act func(a, b *simCluster) error) {
	tune := func(c *Config) { c.Flush.IdleHeartbeat, c.MaxFlushLag = idleBeat, 5*time.Minute }
	largeScene(t, tune, func(a *simCluster) error {
		b := newSimCluster(a.world, "b", 1, a.world.record)
		b.tune = tune
		defer b.end()
		time.Sleep(10 * time.Second)
		if n := writesIn(a.world, 10*time.Minute); n > 12 || n < 9 {
			return fmt.Errorf("an idle leader wrote %d times in 10 min, want 10", n)
		}
		return act(a, b)
	})
}

// waitsFor returns an error unless c becomes active between least and most from now.
func waitsFor(c *simCluster, least, most time.Duration) error {
	began := time.Now()
	for c.active() == nil {
		if time.Since(began) > most {
			return fmt.Errorf("the standby has not taken over after %v", most)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if took := time.Since(began); took < least {
		return fmt.Errorf("the standby has taken over after %v, want at least %v", took, least)
	}
	return nil
}

// A standby of a leader with an idle heartbeat does not take over, and the leader's
// heartbeat becomes fast. When the standby is gone, the heartbeat becomes slow again.
func TestStandbyMakesTheHeartbeatFast(t *testing.T) {
	beatScene(t, func(a, b *simCluster) error {
		lead := a.active()
		time.Sleep(idleBeat / 2)
		b.startAll()
		const soon = 15 * time.Second // until the first look of the standby, and the next one of the leader
		if err := simAwait(soon, func() string {
			if lead.Status().Standby == "" {
				return "the leader does not know of the standby"
			}
			return ""
		}); err != nil {
			return err
		}
		if n := writesIn(a.world, 15*time.Second); n < 4 {
			return fmt.Errorf("the leader wrote %d times in the 15 s after it had seen the standby, want 5", n)
		}
		if n := writesIn(a.world, 5*time.Minute); n < 90 {
			return fmt.Errorf("the leader wrote %d times in 5 min with a standby, want 100", n)
		}
		if a.active() != lead || b.active() != nil {
			return fmt.Errorf("the standby has replaced the leader")
		}
		b.end()
		time.Sleep(6 * lead.cfg.StandbyInterval)
		if n := writesIn(a.world, 5*time.Minute); n > 7 {
			return fmt.Errorf("the leader wrote %d times in 5 min after the standby was gone", n)
		}
		return nil
	})
}

// A standby whose announcement never arrives waits for each promised heartbeat.
func TestStandbyWithoutAnnouncementWaits(t *testing.T) {
	beatScene(t, func(a, b *simCluster) error {
		b.tune = func(c *Config) {
			c.Flush.IdleHeartbeat, c.MaxFlushLag = idleBeat, 5*time.Minute
			c.StandbyInterval = 24 * time.Hour
		}
		b.startAll()
		lead := a.active()
		for end := time.Now().Add(15 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if b.active() != nil || a.active() != lead {
				return fmt.Errorf("the standby has replaced the leader")
			}
		}
		if lead.Status().Standby != "" {
			return fmt.Errorf("the leader still counts a standby that announced itself once")
		}
		crashNodes(a)
		return waitsFor(b, 10*time.Second, idleBeat+15*time.Second)
	})
}

func crashNodes(c *simCluster) {
	for _, n := range c.nodes {
		n.crash()
	}
}

// stopLeaders stops the leader of c repeatedly, until the last node has stopped.
func stopLeaders(c *simCluster) {
	for range len(c.nodes) - 1 {
		for c.active() == nil {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		c.active().place.stop()
	}
	for _, n := range c.nodes {
		n.stop()
	}
}

// A cluster that dies while its leader has an idle heartbeat is replaced after the
// promised time and the broker timeout. If its leaders are stopped in order, it is
// replaced after the broker timeout.
func TestTakeoverFromASlowLeader(t *testing.T) {
	for name, c := range map[string]struct {
		end         func(a *simCluster)
		least, most time.Duration
	}{
		"crashed": {crashNodes, idleBeat + 10*time.Second, idleBeat + 25*time.Second},
		"stopped": {stopLeaders, 10 * time.Second, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			beatScene(t, func(a, b *simCluster) error {
				c.end(a)
				b.startAll()
				return waitsFor(b, c.least, c.most)
			})
		})
	}
}
