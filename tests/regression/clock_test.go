package regression

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// aheadBy waits until the difference between the leader's time and the correct one is between
// two durations.
func aheadBy(t *testing.T, c *cluster.Cluster, least, most time.Duration) {
	t.Helper()
	c.Eventually(patience, fmt.Sprintf("a time that is ahead by %v to %v", least, most), func() error {
		n, err := c.Leader()
		if err != nil {
			return err
		}
		s, err := n.Status()
		if err != nil {
			return err
		}
		if ahead := time.Until(time.UnixMilli(s.Now)); ahead < least || ahead > most {
			return fmt.Errorf("the time of %s is ahead by %v", n.Name, ahead)
		}
		return nil
	})
}

// All clocks were an hour fast at a change of leader, and are correct again: the queue's time
// stays ahead until an operator sets it back. No job and no lease is lost then.
func TestAnOperatorSetsTheTimeBack(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{FaultClock: true})
	clocks := func(offset time.Duration) {
		for _, n := range c.Nodes {
			if _, err := n.SetClock(offset, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := c.WaitLeader()
	clocks(time.Hour)
	old.Kill()
	c.WaitOtherLeader(old)
	old.Start()
	aheadBy(t, c, 50*time.Minute, 70*time.Minute)
	clocks(0)
	if _, err := c.Client.Enqueue(c.Context(patience), client.NewJob{Type: "held"}); err != nil {
		t.Fatal(err)
	}
	held, err := c.Client.Claim(c.Context(patience), client.ClaimOptions{Worker: "w", Lease: time.Minute})
	if err != nil || len(held) != 1 {
		t.Fatalf("claimed %d jobs: %v", len(held), err)
	}

	program, err := cluster.FaultBinary()
	if err != nil {
		t.Fatal(err)
	}
	servers := strings.Join(c.Servers(), ",")
	var shown string
	c.Eventually(patience, "the time to be set back", func() error {
		cmd := exec.CommandContext(c.Context(patience), program, "cluster", "clock", "--set-back", "--yes", "--servers", servers)
		out, err := cmd.CombinedOutput()
		shown = string(out)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if !strings.Contains(shown, "was set back from") {
		t.Errorf("osqueue cluster clock says %q", shown)
	}
	aheadBy(t, c, -10*time.Second, 10*time.Second)
	if err := c.Client.Complete(c.Context(patience), held[0].Lease(), nil); err != nil {
		t.Errorf("the lease from before: %v", err)
	}
	if _, err := c.Client.Enqueue(c.Context(patience), client.NewJob{Type: "later", Delay: time.Second}); err != nil {
		t.Fatal(err)
	}
	due, err := c.Client.Claim(c.Context(patience), client.ClaimOptions{Worker: "w", Lease: time.Minute, Wait: 20 * time.Second})
	if err != nil || len(due) != 1 {
		t.Errorf("a job that was delayed by 1s: %d came: %v", len(due), err)
	}
}
