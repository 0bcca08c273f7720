package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"osqueue/cluster/leader"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
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

// gated starts a leader whose bucket suffers a fault until writes are refused. A worker holds the
// returned job, and its lease does not run out meanwhile.
func (l *lab) gated(rule fault.Rule, writeTimeout time.Duration) (n *member, job *fsm.Job, end func()) {
	l.t.Helper()
	faults := fault.New(l.bucket, 1)
	n = l.leader(l.start("n", 1, func(c *Config) {
		c.Bucket = faults
		c.MaxFlushLag, c.BrokerTimeout, c.Flush.Heartbeat = time.Second, 900*time.Millisecond, 200*time.Millisecond
		c.Settings.LeaseMs = 3000
		c.Flush.WriteTimeout = writeTimeout
	})...)
	l.flushed(n, l.enqueue(n, "a"))
	job = l.claim(n, "w")
	injected := faults.Inject(rule)
	l.t.Cleanup(injected.Stop)
	l.eventually("writes to be refused", func() bool {
		if _, _, err := n.Propose(l.t.Context(), script.HeartbeatOf(job)); err != nil { // the worker is alive
			l.t.Fatal(err)
		}
		return n.Refusal() != nil
	})
	if rule.Kind == fault.Stall {
		l.eventually("the flush to fail", func() bool { return n.Status().FlushError != "" })
	}
	l.never(4*time.Second, "the lease run out while writes were refused", func() bool { return n.Job(job.ID).Status != fsm.InProgress })
	return n, job, func() {
		injected.Stop()
		l.eventually("writes to be taken again", func() bool { return n.Refusal() == nil })
	}
}

// The bucket is slow at first, and fails only when writes are refused already. An event
// about that would let time pass, and leases would expire.
func TestNoLeaseRunsOutWhenTheBucketFailsLate(t *testing.T) {
	t.Parallel()
	n, _, end := newLab(t).gated(fault.Rule{
		Kind: fault.Stall, Ops: []storage.Op{storage.OpPutIfMatch, storage.OpPutIfAbsent, storage.OpGet},
	}, 2*time.Second)
	end()
	events, _ := n.Events().Since(notify.EventID{}, 1000)
	refusing := false
	for _, e := range events {
		switch e.Kind {
		case fsm.WritesRefused:
			refusing = true
		case fsm.WritesAccepted:
			refusing = false
		default:
			if refusing && e.Kind != fsm.BrokerRegistered { // it comes with the acceptance of writes
				t.Errorf("%v while writes were refused", e.Kind)
			}
		}
	}
}

// A job that was added to the document by hand is enqueued while writes are still
// refused, and no worker loses its lease.
func TestNoLeaseRunsOutForAnEdit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, job, end := l.gated(fault.Rule{Kind: fault.LoseRequest}, 200*time.Millisecond)
	l.put(byHand(l.stored(), "by-hand"))
	start := n.Events().Last()
	end()
	l.eventually("the edited job", func() bool { return n.Job("by-hand") != nil })
	events, _ := n.Events().Since(start, 1000)
	for _, e := range events {
		if e.JobID == job.ID {
			t.Errorf("%v at %d", e.Kind, e.At)
		}
	}
}

func waitFor(t *testing.T, d time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return fn(ctx)
}

// Workers report while writes are refused: their jobs continue and end as usual.
func TestReportsPassTheGate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	broken := fault.New(l.bucket, 1)
	n := l.leader(l.start("n", 1, func(c *Config) {
		c.Bucket = broken
		c.MaxFlushLag, c.BrokerTimeout, c.Flush.Heartbeat = 3*time.Second, 2*time.Second, 200*time.Millisecond
		c.Flush.WriteTimeout = 200 * time.Millisecond
		c.Flush.ViewMax, c.Flush.TailMax, c.Flush.TailMin = 1, 64, 64
	})...)
	l.enqueue(n, "completed", "failed", "released", "grouped", "forced")
	held := make(map[string]*fsmpb.Lease)
	for range 5 {
		j := l.claim(n, "w")
		held[j.ID] = &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token}
	}
	// The leader renews its heartbeat, but cannot write the segments of the log.
	away := broken.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfAbsent}})
	defer away.Stop()
	for i := range 20 { // more than the tail in the document takes
		l.enqueue(n, fmt.Sprint("behind ", i))
	}
	l.eventually("writes to be refused", func() bool { return n.Refusal() != nil })

	complete := func(id string) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Worker: "w", Lease: held[id]}}}
	}
	for what, m := range map[string]*fsmpb.Mutation{
		"completion": complete("completed"),
		"failure":    {Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Worker: "w", Lease: held["failed"]}}},
		"release":    {Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{Worker: "w", Lease: held["released"]}}},
		"group":      {Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{complete("grouped")}}}},
		"forced":     {Op: &fsmpb.Mutation_ForceComplete{ForceComplete: &fsmpb.ForceComplete{JobId: "forced"}}},
	} {
		if r, _, err := n.Propose(t.Context(), m); err != nil || !r.Code.Done() {
			t.Errorf("%s: %v %v", what, r.Code, err)
		}
	}
	for id, want := range map[string]fsm.Status{
		"completed": fsm.Completed, "failed": fsm.Unclaimed, "released": fsm.Unclaimed, "grouped": fsm.Completed, "forced": fsm.Completed,
	} {
		if j := n.Job(id); j.Status != want {
			t.Errorf("job %s is %s, want it %s", id, j.Status, want)
		}
	}
	mixed := &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{complete("completed"), script.Claim("w", 1)}}}}
	for what, m := range map[string]*fsmpb.Mutation{"claim": script.Claim("w", 1), "group with a claim": mixed, "enqueue": largeJob("late", 1)} {
		if _, _, err := n.Propose(t.Context(), m); !errors.Is(err, ErrFlushLag) {
			t.Errorf("%s: %v, want it refused", what, err)
		}
	}
}
