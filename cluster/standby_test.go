package cluster

import (
	"errors"
	"testing"
	"time"

	"osqueue/cluster/leader"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/script"
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
		if _, _, err := a.Propose(t.Context(), script.HeartbeatOf(job)); err != nil { // the worker is alive
			t.Fatal(err)
		}
		return a.Status().Refusing != ""
	})
	if l.rivalOf(a, script.CompleteOf(job)) == nil || l.rivalOf(a, script.Claim("w", 1)) == nil || l.rivalOf(a, script.Enqueue("refused")) == nil {
		t.Error("a report, a claim or a new job is answered")
	}
	l.never(5*time.Second, "the lease run out while writes were refused", func() bool { return a.Job(job.ID).Status != fsm.InProgress })
	cut.Stop()
	l.eventually("writes to be answered", func() bool { _, _, err := a.Propose(t.Context(), script.Enqueue("again")); return err == nil })
	if j := a.Job(job.ID); j.Status != fsm.InProgress || j.Execution().Token != job.Execution().Token {
		t.Errorf("the job is %+v", j)
	}
	b.stop()
	l.eventually("the standby to be forgotten", func() bool { return a.Status().Standby == "" })
}
