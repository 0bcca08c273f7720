package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// longPatience is the time limit of a condition that waits for leases, disks or several elections.
const longPatience = 60 * time.Second

func ended(n *cluster.Node) func() error {
	return func() error {
		if n.Running() {
			return errors.New(n.Name + " runs")
		}
		return nil
	}
}

// A leader whose disk hangs, without an error, loses its leadership to another node, and its
// process ends while the write still hangs.
func TestALeaderWhoseDiskHangsEnds(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{FaultClock: true, Flags: []string{"--disk-stall-limit", "3s"}})
	old := c.WaitLeader()
	if err := old.HangDisk(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := c.Client.Enqueue(c.Context(longPatience), client.NewJob{Type: "t"}); err != nil {
		t.Fatalf("no node takes a job while one disk hangs: %v", err)
	}
	t.Logf("a job is taken %v after the disk began to hang", time.Since(began).Round(10*time.Millisecond))
	if now := c.WaitLeader(); now == old {
		t.Errorf("%s leads without a disk", old.Name)
	}
	c.Eventually(longPatience, old.Name+" to end", ended(old))
	if log := old.Log(); !strings.Contains(log, "the disk of the raft log has not answered for 3s") {
		t.Errorf("%s does not say why it ended:\n%s", old.Name, old.LogTail(5))
	}
	if err := old.UnhangDisk(); err != nil {
		t.Fatal(err)
	}
	old.Start()
	c.Eventually(longPatience, old.Name+" to follow", func() error {
		s, err := old.Status()
		if err == nil && s.Leader == nil {
			err = errors.New("it knows no leader")
		}
		return err
	})
}

// SIGTERM ends a node whose disk hangs, too.
func TestANodeWhoseDiskHangsObeysSIGTERM(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 1, FaultClock: true, Flags: []string{"--disk-stall-limit", "2s"}})
	n := c.WaitLeader()
	if err := n.HangDisk(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.Enqueue(c.Context(500*time.Millisecond), client.NewJob{Type: "t"}); err == nil {
		t.Fatal("a job is taken while the disk hangs")
	}
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop() }()
	select {
	case <-stopped:
	case <-time.After(longPatience):
		n.Kill()
		t.Error("it does not end")
	}
}
