package cluster

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"osqueue/cluster/leader"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// standby starts an active cluster a, which reaches the bucket by path, and a standby
// cluster b that a knows of.
func (l *lab) standby(path *fault.Bucket, adjust func(*Config)) (a, b *member) {
	l.t.Helper()
	soon := func(c *Config) {
		c.StandbyInterval, c.StandbyRetry = 200*time.Millisecond, 100*time.Millisecond
		c.Flush.WriteTimeout = 300 * time.Millisecond
	}
	a = l.leader(l.start("a", 1, func(c *Config) {
		soon(c)
		c.Bucket = path
		if adjust != nil {
			adjust(c)
		}
	})...)
	b = l.start("b", 1, soon)[0]
	l.eventually("the leader to know of the standby", func() bool { return a.Status().Standby != "" })
	return a, b
}

// rivalOf returns the RivalError with which a member refuses a mutation, or nil.
func (l *lab) rivalOf(m *member, op *fsmpb.Mutation) (e *leader.RivalError) {
	_, _, err := m.Propose(l.t.Context(), op)
	errors.As(err, &e)
	return e
}

func enqueueOf(id string) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "t"}}}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// A leader that is cut off from the bucket, and knows of a standby, has stopped answering
// when the standby takes over. It answers heartbeats, but no reports.
func TestCutOffLeaderStopsForAStandby(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path := fault.New(l.bucket, 1)
	t.Cleanup(func() { _ = path.Close() })
	a, b := l.standby(path, nil)
	l.enqueue(a, "held")
	job := l.claim(a, "w")
	l.idle(a)
	cut := path.Inject(fault.Rule{Kind: fault.LoseRequest})
	l.enqueue(a, "answered before")
	l.eventually("writes to be refused", func() bool {
		_, took := b.Leader()
		refused := l.rivalOf(a, change(fsm.RetryJobs)) != nil
		if took && !refused {
			t.Error("the leader answers after the standby has taken over")
		}
		return refused
	})
	lease := &fsmpb.Lease{JobId: job.ID, Token: job.Execution().Token}
	done := &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Worker: "w", Lease: lease}}}
	if l.rivalOf(a, done) == nil || l.rivalOf(a, claimOf("w", 1)) == nil {
		t.Error("a report or a claim is answered")
	}
	if r, _, err := a.Propose(t.Context(), heartbeatOf(job)); err != nil || r.Codes[0] != fsm.OK {
		t.Errorf("a heartbeat: %v %v", r.Codes, err)
	}
	l.eventually("the reason in the status", func() bool { return a.Status().Refusing != "" })
	b = l.leader(b)
	if l.rivalOf(a, enqueueOf("after")) == nil {
		t.Error("a write is answered after the takeover")
	}
	cut.Stop()
	l.eventually("the first to be fenced", func() bool { _, self := a.Leader(); return !self })
	if b.Job("held") == nil || b.Job("answered before") != nil {
		t.Errorf("jobs of the standby: held %v, answered before %v", b.Job("held"), b.Job("answered before"))
	}
	b.stop()
	a = l.leader(a)
	if a.Job("held") == nil || a.Job("answered before") == nil || a.Job("after") != nil {
		t.Errorf("jobs: held %v, answered before %v, after %v", a.Job("held"), a.Job("answered before"), a.Job("after"))
	}
}

// If the bucket is back before a standby could take over, the leader answers writes
// again, and no lease has expired.
func TestLeaderAnswersAgainWithoutATakeover(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path := fault.New(l.bucket, 1)
	t.Cleanup(func() { _ = path.Close() })
	l.bucket = path // for both clusters
	a, b := l.standby(path, func(c *Config) { c.Settings.LeaseMs = 4000 })
	l.enqueue(a, "held")
	job := l.claim(a, "w")
	cut := path.Inject(fault.Rule{Kind: fault.LoseRequest})
	l.eventually("writes to be refused", func() bool {
		if _, _, err := a.Propose(t.Context(), heartbeatOf(job)); err != nil { // the worker is alive
			t.Fatal(err)
		}
		return a.Status().Refusing != ""
	})
	l.never(5*time.Second, "the lease run out while writes were refused", func() bool { return a.Job(job.ID).Status != fsm.InProgress })
	cut.Stop()
	l.eventually("writes to be answered", func() bool { _, _, err := a.Propose(t.Context(), enqueueOf("again")); return err == nil })
	if j := a.Job(job.ID); j.Status != fsm.InProgress || j.Execution().Token != job.Execution().Token {
		t.Errorf("the job is %+v", j)
	}
	b.stop()
	l.eventually("the standby to be forgotten", func() bool { return a.Status().Standby == "" })
}

// With the policy "continue", and without a standby, a leader continues to answer.
func TestCutOffLeaderContinues(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"policy": true, "no standby": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			path := fault.New(l.bucket, 1)
			t.Cleanup(func() { _ = path.Close() })
			var a *member
			if known {
				a, _ = l.standby(path, func(c *Config) { c.RivalPolicy = RivalContinue })
			} else {
				a = l.leader(l.start("a", 1, func(c *Config) { c.Bucket = path })...)
			}
			cut := path.Inject(fault.Rule{Kind: fault.LoseRequest})
			defer cut.Stop()
			l.never(3*time.Second, "a write refused", func() bool {
				time.Sleep(50 * time.Millisecond)
				_, _, err := a.Propose(t.Context(), enqueueOf("j"))
				return err != nil
			})
		})
	}
}

// A leader that is cut off before it could know of a standby has stopped answering when the
// standby takes over. Its first write comes after the takeover, so that no lag closes the gate.
func TestCutOffLeaderStopsForAnUnknownStandby(t *testing.T) {
	t.Parallel()
	const wait = 6 * time.Second
	l := newLab(t)
	path := fault.New(l.bucket, 1)
	t.Cleanup(func() { _ = path.Close() })
	tune := func(c *Config) {
		c.StandbyInterval, c.StandbyRetry = time.Hour, 100*time.Millisecond // one look, before b starts
		c.Flush.WriteTimeout = 300 * time.Millisecond
		c.MaxFlushLag = wait
	}
	a := l.leader(l.start("a", 1, func(c *Config) {
		tune(c)
		c.Bucket = path
	})...)
	l.enqueue(a, "before")
	l.idle(a)
	cut := path.Inject(fault.Rule{Kind: fault.LoseRequest})
	began := time.Now()
	b := l.start("b", 1, tune)[0]
	l.never(wait-2*time.Second, "a write refused", func() bool { return a.Status().Refusing != "" })
	if _, self := b.Leader(); self {
		t.Fatalf("the standby has taken over after %v, and the leader answers", time.Since(began))
	}
	b = l.leader(b)
	e := l.rivalOf(a, enqueueOf("after"))
	if e == nil {
		t.Fatal("a write is answered after the takeover")
	}
	if e.Standby != "" || b.Job("before") == nil {
		t.Errorf("the leader refuses for %q; the standby has the job of before: %v", e.Standby, b.Job("before") != nil)
	}
	cut.Stop()
	l.eventually("the first to be fenced", func() bool { _, self := a.Leader(); return !self })
}

// abandoned starts and ends a cluster after whose document an unknown standby waits for a minute,
// and returns its nodes and a listener at its address.
func (l *lab) abandoned(adjust func(*Config)) ([]PeerAddr, net.Listener) {
	l.t.Helper()
	path := fault.New(l.bucket, 1)
	l.t.Cleanup(func() { _ = path.Close() })
	a := l.leader(l.start("a", 1, func(c *Config) {
		adjust(c)
		c.Bucket = path
	})...)
	l.enqueue(a, "kept")
	l.idle(a)
	cut := path.Inject(fault.Rule{Kind: fault.LoseRequest})
	defer cut.Stop()
	a.stop()
	if f := l.document().Fence(); f.Outage != time.Minute || len(f.Members) != 1 || f.Members[0].Address != a.cfg.HTTPAdvertise {
		l.t.Fatalf("the document says %+v", f)
	}
	listener, err := net.Listen("tcp", a.cfg.HTTPAdvertise)
	if err != nil {
		l.t.Fatal(err)
	}
	return a.cfg.Peers, listener
}

func waitMinute(c *Config) {
	c.MaxFlushLag = time.Minute
	c.Flush.WriteTimeout = 300 * time.Millisecond
}

// A cluster on the addresses of the one that wrote the document does not wait for it: those
// processes have ended.
func TestNoWaitForABrokerAtAnOwnAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	peers, listener := l.abandoned(waitMinute)
	began := time.Now()
	b := l.leader(l.open(peers, 0, listener, waitMinute)) // on an empty disk
	if took := time.Since(began); took > 20*time.Second || b.Job("kept") == nil {
		t.Errorf("taken over after %v, with the job: %v", took, b.Job("kept") != nil)
	}
}

// A cluster waits for a broker on another machine whose loopback address is its own one, as two
// installations with default settings have it.
func TestWaitForABrokerAtALoopbackAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	peers, listener := l.abandoned(waitMinute)
	obj, err := l.bucket.Get(t.Context(), DocumentKey)
	if err != nil {
		t.Fatal(err)
	}
	here := l.document().Fence().Members[0].Host
	edited := bytes.Replace(obj.Data, []byte(here), []byte("another machine"), 1)
	if w := l.bucket.PutIfMatch(t.Context(), DocumentKey, edited, obj.Version); w.Outcome != storage.Committed || here == "" {
		t.Fatalf("host %q: %v", here, w.Err)
	}
	b := l.open(peers, 0, listener, waitMinute)
	l.eventually("the node to wait", func() bool { return strings.Contains(b.Status().FenceReason, "another broker") })
	l.never(4*b.cfg.BrokerTimeout, "a takeover from a broker that may be alive", func() bool { _, self := b.Leader(); return self })
}
