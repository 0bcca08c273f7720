package legacy

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// TestAdoptsAQueueWithJobs lets a legacy broker process jobs with every possible outcome
// and kills it. Our cluster adopts the document (jobs, order, attempts, counters), and
// workers complete the jobs that they had claimed before.
func TestAdoptsAQueueWithJobs(t *testing.T) {
	t.Parallel()
	b := begin(t)
	old := b.legacy(func(c *Config) { c.JobTimeout = 3 * time.Second })
	old.WaitServing()
	at := caller{t, old.Address}
	expires := at.submit(fields{"payload": "expires", "type": "odd"})
	lost := at.submit(fields{"payload": "lost", "type": "odd", "maxAttempts": 1})
	if at.claim(fields{"workerId": "gone"}) != expires || at.claim(fields{"workerId": "gone"}) != lost {
		t.Fatal("claims out of order")
	}
	c := b.ours(1)
	c.Eventually(10*time.Second, "the leases of a worker to run out", func() error {
		if s := at.stats(); s.InProgress > 0 {
			return fmt.Errorf("%d run", s.InProgress)
		}
		return nil
	})
	for i := range 20 {
		in := fields{"payload": fields{"n": i, "text": "Привет"}}
		if i%2 == 0 {
			in["type"] = "even"
		}
		if i%5 == 0 {
			in["maxAttempts"] = i // also 0
		}
		at.submit(in)
	}
	at.submit(fields{}) // no payload is not null
	at.submit(fields{"payload": nil})
	for range 3 {
		at.complete(at.claim(fields{"workerId": "w1", "types": []string{"even"}}), fields{"workerId": "w1"})
	}
	named := at.claim(fields{"workerId": "w1", "types": []string{"even"}})
	nameless := at.claim(fields{"types": []string{"even"}})
	old.Kill()
	b.store.Settle()
	before := b.seen()
	if len(before.Jobs) != 20 || before.CompletedTotal != 3 || before.job(t, expires).Attempts != 1 {
		t.Fatalf("the legacy broker has left %+v", before)
	}
	if d := b.document(); d.Header != nil || d.Overtaken {
		t.Fatalf("the legacy broker's document has a header: %+v", d.Header)
	}

	start(c)
	c.WaitLeader()
	b.flushed(c)
	after := b.seen()
	wantJobs(t, after.Jobs, before.Jobs)
	if after.CompletedTotal != 3 || after.Broker != c.Nodes[0].HTTP {
		t.Errorf("broker %s, %d completed", after.Broker, after.CompletedTotal)
	}

	at = caller{t, c.Nodes[0].HTTP}
	at.beat(named, fields{"workerId": "w1"})
	at.complete(named, fields{"workerId": "w1"})
	at.complete(nameless, fields{})
	if s := at.stats(); s.CompletedTotal != 5 || s.Total != 18 || s.InProgress != 0 {
		t.Errorf("after the workers of before have ended their jobs: %+v", s)
	}
	for _, j := range before.Jobs {
		if j.Status != unclaimed {
			continue
		}
		if id := at.claim(fields{"workerId": "w2"}); id != j.ID {
			t.Fatalf("claimed %s, and %s is next", id, j.ID)
		}
		at.complete(j.ID, fields{"workerId": "w2"})
	}
	if s := at.stats(); s.CompletedTotal != 23 || s.Total != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

// TestAdoptsAQueueWithoutJobs adopts the document of a legacy broker that has no jobs, or
// never had any.
func TestAdoptsAQueueWithoutJobs(t *testing.T) {
	t.Parallel()
	for _, done := range []int{0, 2} {
		t.Run(fmt.Sprintf("completed=%d", done), func(t *testing.T) {
			t.Parallel()
			b := begin(t)
			old := b.legacy(nil)
			old.WaitServing()
			at := caller{t, old.Address}
			for range done {
				at.submit(fields{"payload": 1})
				at.complete(at.claim(fields{"workerId": "w"}), fields{"workerId": "w"})
			}
			old.Kill()
			c := b.ours(1)
			start(c)
			c.WaitLeader()
			b.flushed(c)
			d := b.seen()
			if len(d.Jobs) != 0 || d.CompletedTotal != done || d.Broker != c.Nodes[0].HTTP {
				t.Errorf("%+v", d)
			}
			at = caller{t, c.Nodes[0].HTTP}
			id := at.submit(fields{"payload": 1})
			if got := at.claim(fields{"workerId": "w"}); got != id {
				t.Errorf("claimed %q, submitted %q", got, id)
			}
		})
	}
}

// TestDiscovery checks that a legacy broker does not start while ours serves, and that its
// clients find our address in the document.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	b := begin(t)
	c := b.ours(3)
	start(c)
	leader := c.WaitLeader()
	found := func() string {
		var d struct {
			Broker          string
			BrokerHeartbeat int64
		}
		if err := json.Unmarshal(b.text(), &d); err != nil {
			t.Fatal(err)
		}
		if silent := time.Since(time.UnixMilli(d.BrokerHeartbeat)); silent > timeout {
			return fmt.Sprintf("a broker silent for %v", silent)
		}
		return d.Broker
	}
	if at := found(); at != leader.HTTP {
		t.Errorf("the document names %s, %s leads", at, leader.HTTP)
	}
	id := caller{t, found()}.submit(fields{"payload": "discovered"})
	leader.Kill()
	next := c.WaitOtherLeader(leader)
	err := cluster.Poll(cluster.LeaderTimeout, func() error {
		if at := found(); at != next.HTTP {
			return fmt.Errorf("the document names %s, %s leads", at, next.HTTP)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := (caller{t, found()}).claim(fields{"workerId": "w"}); got != id {
		t.Errorf("claimed %q, submitted %q", got, id)
	}
}
