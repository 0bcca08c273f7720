package legacy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	osqueue "osqueue/client"
	v1 "osqueue/client/api/v1"
)

// smallInline is an inline limit below the size of the queue in these tests.
const smallInline = "4096"

// TestLegacyOnALargeDocument starts a legacy broker on a document of ours that has no
// list of jobs, because the queue is large. The behaviour of the real one was not
// recorded, so the test tries every possible one: whatever the broker writes, nothing may
// be lost when our nodes return.
func TestLegacyOnALargeDocument(t *testing.T) {
	t.Parallel()
	for _, missing := range []Missing{Fail, Unreadable, TakeForEmpty} {
		for _, disks := range []string{"kept", "lost"} {
			t.Run(fmt.Sprintf("missing=%s/disks=%s", missing, disks), func(t *testing.T) {
				t.Parallel()
				b := begin(t)
				c := b.ours(1, "--inline-max", smallInline)
				start(c)
				c.WaitLeader()
				var ids []string
				for i := range 200 {
					ids = append(ids, fmt.Sprintf("large-%03d", i))
				}
				batch := make([]osqueue.NewJob, len(ids))
				for i, id := range ids {
					batch[i] = osqueue.NewJob{ID: id, Type: "large", Payload: []byte(`"some bytes"`)}
				}
				if _, err := c.Client.EnqueueBatch(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
				done := b.completeSafely(c, "large", 3)
				b.stop(c)
				if d := b.document(); !d.Large || d.Overtaken {
					t.Fatalf("large %v, overtaken %v", d.Large, d.Overtaken)
				}
				left := b.text()

				ids = append(ids, b.tryLarge(missing, left)...)

				if disks == "lost" {
					c.Nodes[0].Wipe()
				}
				start(c)
				c.WaitLeader()
				s, err := c.Client.Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if s.Unclaimed != len(ids)-len(done) || s.Completed != len(done) || s.CompletedTotal < uint64(len(done)) {
					t.Errorf("%+v, of %d jobs", s, len(ids))
				}
				for _, id := range done {
					if j, err := c.Client.Job(t.Context(), id); err != nil || j.Status != v1.StatusCompleted {
						t.Errorf("job %s was completed and is %s: %v", id, j.Status, err)
					}
				}
				b.checkAll(c, ids, done)
				b.flushed(c)
				if d := b.document(); d.Overtaken || d.BrokerAddress() != c.Nodes[0].HTTP {
					t.Errorf("the document belongs to %s", d.BrokerAddress())
				}
			})
		}
	}
}

// tryLarge lets a legacy broker take part in elections until it is elected or gives up. It
// returns the jobs that the broker accepted.
func (b *together) tryLarge(missing Missing, left []byte) (ids []string) {
	b.Helper()
	time.Sleep(time.Until(b.heartbeat().Add(timeout + 50*time.Millisecond))) // our leader has died
	old := b.legacy(func(c *Config) { c.Missing = missing })
	switch missing {
	case TakeForEmpty:
		old.WaitServing()
		for i := range 3 {
			ids = append(ids, caller{b.T, old.Address}.submit(fields{"payload": i, "type": "theirs"}))
		}
		old.Kill()
		b.store.Settle()
	case Fail:
		if log := old.WaitEnd(); !strings.Contains(log, "register: TypeError") {
			b.Fatalf("it ends otherwise:\n%s", log)
		}
		// The broker has registered and changed nothing else.
		d := b.document()
		if !d.Large || !d.Overtaken || d.BrokerAddress() != old.Address || len(d.Jobs) != 0 {
			b.Errorf("it has left %+v", d)
		}
	case Unreadable:
		old.WaitEnd()
		if after := b.text(); !bytes.Equal(after, left) {
			b.Errorf("it has changed what it cannot read to\n%s", after)
		}
	}
	return ids
}

// TestLegacyStartsAgainAndAgain restarts the legacy broker in a loop. Every time it is
// elected, it registers in the large document and fails; our nodes take over in between.
func TestLegacyStartsAgainAndAgain(t *testing.T) {
	t.Parallel()
	b := begin(t)
	c := b.ours(3, "--inline-max", smallInline)
	start(c)
	c.WaitLeader()
	var ids []string
	for range 60 {
		ids = append(ids, b.submitSafely(c))
	}
	b.stop(c)
	old := b.legacy(func(c *Config) { c.Retry = time.Second })
	c.Eventually(3*timeout, "the legacy broker to register", func() error {
		if d := b.seen(); d.Broker != old.Address {
			return fmt.Errorf("%s is registered", d.Broker)
		}
		return nil
	})
	start(c)
	b.standsBy(c)
	c.WaitLeader()
	b.flushed(c)
	if d := b.document(); !d.Large || d.Overtaken {
		t.Errorf("large %v, overtaken %v", d.Large, d.Overtaken)
	}
	b.checkAll(c, ids, nil)
}

// TestFrozenLegacyWakesToALargeDocument makes the queue large while the legacy broker is
// paused. When it continues, its defect cannot take back a document that it cannot read.
func TestFrozenLegacyWakesToALargeDocument(t *testing.T) {
	t.Parallel()
	b := begin(t)
	old := b.legacy(func(c *Config) { c.TakesBack = true })
	old.WaitServing()
	ids := []string{caller{t, old.Address}.submit(fields{"payload": 1, "type": "theirs"})}
	c := b.ours(3, "--inline-max", smallInline)
	start(c)
	b.standsBy(c)
	old.Pause()
	c.WaitLeader()
	for range 60 {
		ids = append(ids, b.submitSafely(c))
	}
	b.flushed(c)
	if d := b.document(); !d.Large {
		t.Fatal("the document is not large")
	}
	before, err := c.WaitLeader().Status()
	if err != nil {
		t.Fatal(err)
	}
	old.Continue()
	if err := Call(t.Context(), "POST", old.Address, "/v1/jobs", fields{"payload": "refused"}, nil); err == nil {
		t.Error("the legacy broker accepts a job without a list of jobs")
	}
	time.Sleep(3 * heartbeat) // it keeps trying
	b.stillActive(c)
	if after, err := c.WaitLeader().Status(); err != nil || after.Term == before.Term && after.Epoch != before.Epoch {
		t.Errorf("the epoch went from %d to %d: %v", before.Epoch, after.Epoch, err)
	}
	b.checkAll(c, ids, nil)
}
