package legacy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	osqueue "osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/storage/document"
	"osqueue/tests/cluster"
)

// TestSameElection runs our node and a legacy broker on one bucket. One serves and the
// other stands by. The standby takes over when the heartbeat of the killed leader is
// stale, and not earlier.
func TestSameElection(t *testing.T) {
	t.Parallel()
	b := begin(t)
	c := b.ours(3)
	start(c)
	leader := c.WaitLeader()
	ids := []string{caller{t, leader.HTTP}.submit(fields{"payload": "ours"})}
	b.flushed(c)

	if log := b.legacy(nil).WaitEnd(); !strings.Contains(log, "another broker is active: "+leader.HTTP) {
		t.Fatalf("a legacy broker beside ours:\n%s", log)
	}

	old := b.legacy(patient)
	b.staysActive(c, old)
	b.stop(c)
	last := b.heartbeat()
	old.WaitServing()
	b.tookOver(last, old.Address)
	start(c)
	b.standsBy(c)
	at := caller{t, old.Address}
	ids = append(ids, at.submit(fields{"payload": "theirs"}))
	c.Eventually(cluster.LeaderTimeout, leader.Name+" to serve", func() error {
		_, err := leader.Status()
		return err
	})
	if err := Call(t.Context(), "POST", leader.HTTP, "/v1/jobs", fields{"payload": "refused"}, nil); !refused(err) {
		t.Errorf("a node that stands by answers a write with %v", err)
	}

	old.Kill()
	b.store.Settle()
	last = b.heartbeat()
	next := c.WaitLeader()
	b.flushed(c)
	b.tookOver(last, next.HTTP)
	if log := b.legacy(nil).WaitEnd(); !strings.Contains(log, "another broker is active: "+next.HTTP) {
		t.Fatalf("a legacy broker beside ours:\n%s", log)
	}
	for _, id := range ids {
		if got := (caller{t, next.HTTP}).claim(fields{"workerId": "w"}); got != id {
			t.Errorf("claimed %q, %s is next", got, id)
		}
	}
	b.checkVersions()
}

// refused reports whether an answer is a 503, which the caller repeats.
func refused(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Status == 503
}

// staysActive checks that no broker deposes a living leader.
func (b *together) staysActive(c *cluster.Cluster, rival *Process) {
	b.Helper()
	before, err := c.WaitLeader().Status()
	if err != nil {
		b.Fatal(err)
	}
	for end := time.Now().Add(timeout + time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if d := b.seen(); d.Broker == rival.Address {
			b.Fatal("a legacy broker took over from a living one of ours")
		}
	}
	after, err := c.WaitLeader().Status()
	if err != nil {
		b.Fatal(err)
	}
	if before.Term == after.Term && before.Epoch != after.Epoch {
		b.Errorf("the epoch went from %d to %d", before.Epoch, after.Epoch)
	}
}

func (b *together) heartbeat() time.Time {
	b.Helper()
	return time.UnixMilli(b.seen().BrokerHeartbeat)
}

// tookOver checks that the broker has registered, and not while the last heartbeat of its
// predecessor was fresh.
func (b *together) tookOver(last time.Time, broker string) {
	b.Helper()
	d := b.seen()
	if d.Broker != broker {
		b.Fatalf("the broker is %s, not %s", d.Broker, broker)
	}
	for _, text := range b.store.Versions() {
		v, err := document.Decode(text)
		if err != nil {
			b.Fatal(err)
		}
		at := time.UnixMilli(v.BrokerHeartbeat)
		if v.BrokerAddress() == broker && at.After(last) {
			if silent := at.Sub(last); silent <= timeout {
				b.Errorf("%s took over %v after the other's last heartbeat", broker, silent)
			}
			return
		}
	}
	b.Fatalf("no version is of %s", broker)
}

// checkVersions checks all accepted versions of the document that our nodes wrote: neither
// epoch nor LSN ever decreases, even if a legacy broker wrote in between.
func (b *together) checkVersions() {
	b.Helper()
	var last *document.Header
	ours, theirs := 0, 0
	for i, text := range b.store.Versions() {
		d, err := document.Decode(text)
		if err != nil {
			b.Fatalf("version %d: %v", i, err)
		}
		h := d.Header
		if h == nil || d.Overtaken {
			theirs++
			continue
		}
		if last != nil && h.Write == last.Write {
			continue // a broker that is not registered changed it
		}
		ours++
		if last != nil && (h.Epoch < last.Epoch || h.LSN().Compare(last.LSN()) < 0 || h.Lineage != last.Lineage) {
			b.Errorf("version %d is of epoch %d, LSN %s, after epoch %d, LSN %s", i, h.Epoch, h.LSN(), last.Epoch, last.LSN())
		}
		last = h
	}
	b.Logf("%d versions are ours, %d a legacy broker's", ours, theirs)
	if ours == 0 || theirs == 0 {
		b.Error("they did not share the bucket")
	}
}

// TestRaceForAnEmptyBucket starts both on an empty bucket at nearly the same time. Only
// one may serve.
func TestRaceForAnEmptyBucket(t *testing.T) {
	t.Parallel()
	wins := make(map[bool]int)
	for i := range 5 {
		b := begin(t)
		c := b.ours(1)
		start(c)
		time.Sleep(time.Duration(300*i) * time.Millisecond) // a node needs a second to become raft's leader
		old := b.legacy(nil)
		var won bool
		c.Eventually(cluster.LeaderTimeout, "somebody to serve", func() error {
			s, err := c.Nodes[0].Status()
			won = err == nil && s.State == v1.StateLeader
			if won || strings.Contains(old.Log(), "serving") {
				return nil
			}
			return errors.New("nobody")
		})
		wins[won]++
		if won {
			endsNotElected(t, old)
		} else {
			b.standsBy(c)
		}
		old.Kill()
		c.KillAll()
	}
	t.Logf("ours won %d times, the legacy broker %d times", wins[true], wins[false])
}

func endsNotElected(t *testing.T, old *Process) {
	t.Helper()
	if log := old.WaitEnd(); !strings.Contains(log, "another broker is active") && !strings.Contains(log, "the election was lost") {
		t.Errorf("the legacy broker ends otherwise:\n%s", log)
	}
}

// TestLateForAnEmptyBucket delays the first write of a broker that has found no document
// until the other has created one.
func TestLateForAnEmptyBucket(t *testing.T) {
	t.Parallel()
	t.Run("legacy", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		late := b.store.Proxy(t).HoldNext()
		old := b.legacy(nil)
		<-late.Arrived()
		c := b.ours(1)
		start(c)
		c.WaitLeader()
		if !late.Release() {
			t.Error("the late document was accepted")
		}
		endsNotElected(t, old)
		b.stillActive(c)
	})
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		late := b.store.Proxy(t).HoldNext()
		c := b.ours(1)
		start(c)
		<-late.Arrived()
		old := b.legacy(nil)
		old.WaitServing()
		if !late.Release() {
			t.Error("the late document was accepted")
		}
		b.standsBy(c)
		if d := b.seen(); d.Broker != old.Address {
			t.Errorf("%s is registered", d.Broker)
		}
	})
}

// TestFrozenLegacyWakes pauses a legacy broker, lets our node take over, and continues
// the legacy broker. With its recorded defect the broker takes the document back with its
// next heartbeat: our node must stop, and everything that it acknowledged as flushed must
// be kept. Without the defect the broker ends.
func TestFrozenLegacyWakes(t *testing.T) {
	t.Parallel()
	for _, defect := range []bool{true, false} {
		t.Run(fmt.Sprintf("defect=%v", defect), func(t *testing.T) {
			t.Parallel()
			b := begin(t)
			old := b.legacy(func(c *Config) { c.TakesBack = defect })
			old.WaitServing()
			var ids []string
			for i := range 5 {
				ids = append(ids, caller{t, old.Address}.submit(fields{"payload": i, "type": "theirs"}))
			}
			c := b.ours(3)
			start(c)
			b.standsBy(c)
			old.Pause()
			c.WaitLeader()
			for range 20 {
				ids = append(ids, b.submitSafely(c))
			}
			done := b.completeSafely(c, "theirs", 2)
			old.Continue()
			if !defect {
				old.WaitEnd()
				b.stillActive(c)
			} else {
				b.takenBack(c, old, &ids)
			}
			b.checkAll(c, ids, done)
			b.checkVersions()
		})
	}
}

func (b *together) submitSafely(c *cluster.Cluster) string {
	b.Helper()
	e, err := c.Client.Enqueue(safely(b.Context()), osqueue.NewJob{Type: "ours", Payload: []byte("1")})
	if err != nil {
		b.Fatal(err)
	}
	return e.JobID
}

func (b *together) completeSafely(c *cluster.Cluster, jobType string, n int) (ids []string) {
	b.Helper()
	ctx := safely(b.Context())
	jobs, err := c.Client.Claim(ctx, osqueue.ClaimOptions{Worker: "w", Types: []string{jobType}, Max: n})
	if err != nil || len(jobs) != n {
		b.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for _, j := range jobs {
		if err := c.Client.Complete(ctx, held("w", j), nil); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	return ids
}

func (b *together) stillActive(c *cluster.Cluster) {
	b.Helper()
	s, err := c.WaitLeader().Status()
	if err != nil {
		b.Fatal(err)
	}
	if d := b.seen(); d.Broker != *s.LeaderAddress {
		b.Errorf("%s is registered, %s leads", d.Broker, *s.LeaderAddress)
	}
}

// takenBack checks that our node has stopped, lets the legacy broker process jobs, and
// kills it.
func (b *together) takenBack(c *cluster.Cluster, old *Process, ids *[]string) {
	b.Helper()
	c.Eventually(10*time.Second, "the legacy broker to take the document back", func() error {
		if d := b.seen(); d.Broker != old.Address {
			return fmt.Errorf("%s is registered", d.Broker)
		}
		return nil
	})
	c.Eventually(10*time.Second, "ours to stop", func() error {
		if n, err := c.Leader(); err == nil {
			return fmt.Errorf("%s leads", n.Name)
		}
		return nil
	})
	b.standsBy(c)
	for _, n := range c.Nodes {
		if err := Call(b.Context(), "POST", n.HTTP, "/v1/jobs", fields{"payload": 1}, nil); !refused(err) {
			b.Errorf("%s is fenced and answers a write with %v", n.Name, err)
		}
	}
	*ids = append(*ids, caller{b.T, old.Address}.submit(fields{"payload": "back", "type": "theirs"}))
	old.Kill()
	b.store.Settle()
	c.WaitLeader()
}

// checkAll claims every job that was acknowledged and not completed, and checks that each
// comes once.
func (b *together) checkAll(c *cluster.Cluster, ids, done []string) {
	b.Helper()
	left := make(map[string]bool)
	for _, id := range ids {
		left[id] = true
	}
	for _, id := range done {
		delete(left, id)
	}
	total := len(left)
	for len(left) > 0 {
		jobs, err := c.Client.Claim(b.Context(), osqueue.ClaimOptions{Worker: "last", Max: 100})
		if err != nil {
			b.Fatal(err)
		}
		if len(jobs) == 0 {
			break
		}
		for _, j := range jobs {
			if !left[j.ID] {
				b.Errorf("job %s is handed out and was not expected", j.ID)
			}
			delete(left, j.ID)
		}
	}
	if len(left) > 0 {
		b.Errorf("%d of %d jobs are lost: %v", len(left), total, left)
	}
}
