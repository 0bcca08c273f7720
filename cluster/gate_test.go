package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"osqueue/cluster/leader"
	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
)

// The bucket is unavailable. The quorum continues until the lag is too long; then writes
// are refused with the reason, and no lease expires. When the bucket is back, the leader
// catches up, extends all leases and accepts writes again. Events report each of these
// steps.
func TestWritesAreRefusedWhenTheBucketIsTooFarBehind(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	broken := fault.New(l.bucket, 1)
	n := l.leader(l.start("n", 1, func(c *Config) {
		c.Bucket = broken
		c.MaxFlushLag = 3 * time.Second // long enough for the outage to be announced before
		c.Settings.LeaseMs = 3000
		c.Flush.WriteTimeout = 200 * time.Millisecond
	})...)
	l.enqueue(n, "a")
	job := l.claim(n, "w")
	start := n.Events().Last()
	away := broken.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfMatch, storage.OpPutIfAbsent, storage.OpGet}})
	l.enqueue(n, "while-it-is-away")

	var refused *leader.RivalError // the heartbeat is as old as the lag, and another cluster may wait for as long
	l.eventually("writes to be refused", func() bool {
		if _, _, err := n.Propose(t.Context(), script.HeartbeatOf(job)); err != nil { // the worker is alive
			t.Fatal(err)
		}
		return errors.As(n.Refusal(), &refused)
	})
	if r, _, err := n.Propose(t.Context(), script.HeartbeatOf(job)); err != nil || r.Codes[0] != fsm.OK {
		t.Fatalf("a heartbeat while writes are refused: %v %v", r.Codes, err)
	}
	if refused.Silent < 2*time.Second || refused.Cause == "" || !errors.Is(refused, ErrFlushLag) {
		t.Fatalf("refused with %+v", refused)
	}
	if err := n.Refusal(); !errors.Is(err, ErrFlushLag) {
		t.Fatalf("the node says that it refuses with %v", err)
	}
	for range 3 {
		if _, _, err := n.Propose(t.Context(), script.Claim("w", 1)); !errors.Is(err, ErrFlushLag) {
			t.Fatalf("a claim got %v", err)
		}
	}
	if j := n.Job("while-it-is-away"); j.Status != fsm.Unclaimed || j.Attempts != 0 {
		t.Fatalf("the job is %s though all claims were refused", j.Status)
	}
	if s := n.Status(); s.Refusing == "" || s.LagMs < 1000 || s.LagEntries == 0 || s.LagBytes == 0 || s.FlushError == "" {
		t.Fatalf("status: %+v", s)
	}
	if err := waitFor(t, 100*time.Millisecond, func(ctx context.Context) error { return n.WaitFlushed(ctx, n.Status().LSN) }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("flushed without a bucket: %v", err)
	}
	l.never(4*time.Second, "the lease run out while writes were refused", func() bool {
		return n.Job(job.ID).Status != fsm.InProgress
	})

	away.Stop()
	l.eventually("writes to be taken again", func() bool {
		return n.Refusal() == nil
	})
	if err := n.Refusal(); err != nil {
		t.Fatalf("the node still says that it refuses: %v", err)
	}
	if j := n.Job(job.ID); j.Status != fsm.InProgress || j.Execution().Token != job.Execution().Token {
		t.Fatalf("the job is %s with token %d after the outage", j.Status, j.Execution().Token)
	}
	if err := n.WaitFlushed(t.Context(), n.Status().LSN); err != nil {
		t.Fatal(err)
	}
	var told []fsm.EventKind
	l.eventually("the events", func() bool {
		told = told[:0]
		events, _ := n.Events().Since(start, 1000)
		for _, e := range events {
			if e.Kind >= fsm.BucketAway && e.Kind <= fsm.WritesAccepted {
				told = append(told, e.Kind)
			}
		}
		return len(told) == 4
	})
	slices.Sort(told)
	if want := []fsm.EventKind{fsm.BucketAway, fsm.BucketBack, fsm.WritesRefused, fsm.WritesAccepted}; !slices.Equal(told, want) {
		t.Fatalf("told %v", told)
	}
}

func waitFor(t *testing.T, d time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return fn(ctx)
}
