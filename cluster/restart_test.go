package cluster

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/membership"
	"osqueue/cluster/raftlog"
	"osqueue/fsm"
)

// again starts a stopped member at its old address, with the given data directory.
func (l *lab) again(old *member, dir string, adjust func(*Config)) *member {
	l.t.Helper()
	listener, err := net.Listen("tcp", old.cfg.HTTPAdvertise)
	if err != nil {
		l.t.Fatal(err)
	}
	peers, at := old.cfg.Peers, 0
	for i, p := range peers {
		if p.Name == old.cfg.Name {
			at = i
		}
	}
	return l.open(peers, at, listener, func(c *Config) {
		c.DataDir = dir
		c.RaftAddr = string(old.net.LocalAddr())
		if adjust != nil {
			adjust(c)
		}
	})
}

// With the log in memory only the bucket keeps the state. The next cluster is another
// one, and waits until the heartbeat of the first one is stale.
func TestMemoryLogComesBackFromTheBucket(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	use := func(c *Config) { c.Memory = true }
	n := l.leader(l.start("n", 1, use)...)
	lsn := l.enqueue(n, "a")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	n.stop()
	n = l.leader(l.again(n, "", use))
	if n.Job("a") == nil {
		t.Fatal("the job is lost")
	}
	if got := l.enqueue(n, "b"); got.Compare(lsn) <= 0 {
		t.Fatalf("LSN %s after %s", got, lsn)
	}
}

// n3 lags when both others stop, and one of these loses its disk. The entries that the
// two had committed are still on one disk: n3 must not win with the vote of a node
// without a log, whatever its name.
func TestWipedNodeDoesNotVote(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	rest := others(all, leader)
	wiped, lagging := rest[0], rest[1]
	lagging.stop()
	lsn := l.enqueue(leader, "acked")
	wiped.stop()
	leader.stop()

	wiped = l.again(wiped, t.TempDir(), nil)
	lagging = l.again(lagging, lagging.cfg.DataDir, nil)
	l.never(3*time.Second, "an election without the acknowledged job", func() bool {
		return wiped.raft.State() == raft.Leader || lagging.raft.State() == raft.Leader
	})
	back := l.again(leader, leader.cfg.DataDir, nil)
	n := l.leader(back, lagging, wiped)
	if n.Job("acked") == nil {
		t.Fatal("the acknowledged job is lost")
	}
	l.eventually("the wiped node to have a vote of its own", func() bool {
		config := n.raft.GetConfiguration().Configuration()
		return len(config.Servers) == 3 && membership.Voter(config, wiped.id) && wiped.WaitApplied(t.Context(), lsn) == nil
	})
}

func TestDataDirectoryOfAnotherNodeIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	n.stop()
	cfg := n.cfg
	cfg.Name, cfg.Peers = "other", nil
	if node, err := Open(cfg); err == nil {
		_ = node.Close()
		t.Fatal("it was opened")
	}
}

func TestLinearizeIsTheLeadersOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	for _, m := range all {
		err := m.Linearize(t.Context())
		if m == leader && err != nil || m != leader && !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s: %v", m.Name(), err)
		}
	}
	leader.stop()
	if err := leader.Linearize(t.Context()); !errors.Is(err, ErrNotLeader) {
		t.Errorf("stopped: %v", err)
	}
}

// Leases that expired while no node led are extended.
func TestLeasesSurviveATimeWithoutLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	short := func(c *Config) { c.Settings.LeaseMs = 1500 }
	n := l.leader(l.start("n", 1, short)...)
	l.enqueue(n, "a")
	claimed := l.claim(n, "w")
	n.stop()
	l.eventually("the lease to be over", func() bool {
		return time.Now().UnixMilli() > claimed.Execution().Heartbeat+claimed.Execution().HeldMs+100
	})
	n = l.leader(l.again(n, n.cfg.DataDir, short))
	if j := n.Job("a"); j.Status != fsm.InProgress || j.Execution().Token != claimed.Execution().Token {
		t.Fatalf("the job is %s with token %d, was claimed with %d", j.Status, j.Execution().Token, claimed.Execution().Token)
	}
	l.eventually("the lease to end in its own time", func() bool { return n.Job("a").Status == fsm.Unclaimed })
}

// A disk that hangs during the start ends the start, as it ends a running node.
func TestTheStartEndsWhenTheDiskHangs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	n.stop()
	release, hangs := make(chan struct{}), make(chan struct{}, 10)
	cfg := n.cfg
	cfg.RaftAddr = "127.0.0.1:0"
	cfg.LogStallLimit = time.Second
	cfg.BeforeLogWrite = func() {
		hangs <- struct{}{}
		<-release
	}
	defer func() {
		close(release)
		l.eventually("the end of the node, which unlocks the log", func() bool {
			d, err := raftlog.Open(cfg.DataDir, nil)
			return err == nil && d.Close() == nil
		})
	}()
	_, err := Open(cfg)
	if err == nil || !strings.Contains(err.Error(), "has not answered") {
		t.Fatalf("Open returned %v", err)
	}
	if len(hangs) == 0 {
		t.Fatal("no write hung")
	}
}
