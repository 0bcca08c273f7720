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

// A leader that is cut off, and knows of a standby, answers heartbeats, but no reports. If the
// bucket is back before the standby could take over, the leader answers writes again, and no lease
// has expired.
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
	done := &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: "w", Lease: &fsmpb.Lease{JobId: job.ID, Token: job.Execution().Token},
	}}}
	if l.rivalOf(a, done) == nil || l.rivalOf(a, claimOf("w", 1)) == nil || l.rivalOf(a, enqueueOf("refused")) == nil {
		t.Error("a report, a claim or a new job is answered")
	}
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
