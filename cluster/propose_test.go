package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A write that may have been committed must not be reported as not committed: the client
// would send it again as a new one.
func TestWhatMayHaveHappenedIsUnknown(t *testing.T) {
	for _, c := range []struct{ raft, want error }{
		{raft.ErrNotLeader, ErrNotLeader},
		{raft.ErrLeadershipTransferInProgress, ErrNotLeader},
		{raft.ErrLeadershipLost, ErrUnknown},
		{raft.ErrAbortedByRestore, ErrUnknown},
		{raft.ErrRaftShutdown, ErrUnknown},
		{context.DeadlineExceeded, ErrUnknown},
		{errors.New("something new"), ErrUnknown},
	} {
		got := raftError(c.raft)
		if !errors.Is(got, c.want) || errors.Is(got, ErrNotLeader) != errors.Is(c.want, ErrNotLeader) {
			t.Errorf("%v: got %v, want %v", c.raft, got, c.want)
		}
	}
}

// A leader that is cut off from the others still believes that it leads until its lease
// expires. Another node may lead by then.
func TestLinearizeAsksTheOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	// The lease is long, so that nothing else ends the leadership before the read.
	nodes := l.start("n", 3, func(c *Config) {
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaseTimeout = 5*time.Second, 5*time.Second, 5*time.Second
	})
	leader := l.leader(nodes...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := leader.Linearize(ctx); err != nil {
		t.Fatalf("with the others there: %v", err)
	}
	for _, n := range nodes {
		if n != leader {
			n.stop()
		}
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := leader.Linearize(ctx); err == nil {
		t.Fatal("a leader without the others is certain that it leads")
	}
	if _, self := leader.Leader(); !self {
		t.Fatal("its leadership has ended: the test shows nothing")
	}
}
