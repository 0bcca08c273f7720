package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// A node that is started on a full disk serves while its files have room. Then it says that the
// disk is full and ends with status 1, without a panic of raft, and starts again when there is room.
func TestAStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{Nodes: 1})
	n := c.Nodes[0]
	var not *cluster.NotPossibleError
	if err := n.MountDisk(24 << 20); errors.As(err, &not) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	n.Start()
	c.WaitLeader()
	ids := fill(t, c, 4, 10)
	n.Kill()
	if _, err := n.FillDisk(0); err != nil {
		t.Fatal(err)
	}
	n.Start()
	large := fmt.Appendf(nil, "%q", noise(200<<10))
	c.Eventually(longPatience, "the node to end", func() error {
		_, _ = c.Client.Enqueue(c.Context(time.Second), client.NewJob{Type: "large", Payload: large}) // until the disk is full
		return ended(n)()
	})
	var exit *exec.ExitError
	if err := n.Stop(); !errors.As(err, &exit) || exit.ExitCode() != 1 { // it has ended already
		t.Errorf("it ends with %v, want status 1", err)
	}
	log := n.LogTail(60)
	if !strings.Contains(log, "is full: make room on it") || strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		t.Errorf("it says:\n%s", log)
	}
	t.Log(n.LogTail(3))
	if err := n.FreeDisk(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	c.WaitLeader()
	mustHave(t, c, ids)
}
