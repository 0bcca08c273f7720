package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// Two of three disks are lost for good while the bucket is behind. The third one has everything that was acknowledged:
// the cluster continues from it. Before, the command refuses while the others run, and changes nothing without --yes.
func TestRecoverFromOneDisk(t *testing.T) {
	t.Parallel()
	c := &changing{cluster.Start(t, cluster.Options{Flags: []string{"--flush-interval", "3s"}}), t}
	audit := filepath.Join(t.TempDir(), "audit.log")
	recovers := func(want int, text string, args ...string) string {
		t.Helper()
		out, code := command(t, append([]string{"cluster", "recover"}, args...)...)
		if code != want || !strings.Contains(out, text) {
			t.Fatalf("osqueue cluster recover %v: status %d, want %d with %q:\n%s", args, code, want, text, out)
		}
		return out
	}
	const jobs = 50
	for i := range jobs {
		_, err := c.Client.Enqueue(c.Context(patience), client.NewJob{ID: fmt.Sprint("job-", i), Type: "t"})
		check(t, err)
	}
	leader := c.WaitLeader()
	survivor := c.Follower()
	c.Eventually(patience, "the follower to have all", func() error {
		l, err := leader.Status()
		if err != nil {
			return err
		}
		s, err := survivor.Status()
		if err == nil && s.LSN != l.LSN {
			err = fmt.Errorf("%s of %s", s.LSN, l.LSN)
		}
		return err
	})
	recovers(1, "is the node stopped?", survivor.DataDir())
	survivor.Kill()
	recovers(1, "still listen", survivor.DataDir(), "--yes", "--audit-log", audit)
	recovers(0, "nothing was changed", survivor.DataDir())
	c.KillAll()

	var dirs []string
	for _, n := range c.Nodes {
		dirs = append(dirs, n.DataDir())
	}
	t.Log(recovers(0, "nothing was changed", append(dirs, "--bucket", c.Bucket())...))
	recovers(2, "choose one DIR", append(dirs, "--yes")...)
	for _, n := range c.Nodes {
		if n != survivor {
			n.Wipe()
		}
	}
	out := recovers(0, "is the only member of its cluster", survivor.DataDir(), "--yes", "--audit-log", audit)
	recovers(0, "is the only member of its cluster", survivor.DataDir(), "--yes", "--audit-log", audit) // again: it was cut
	t.Log(out)
	data, err := os.ReadFile(audit)
	check(t, err)
	var entry v1.AuditEntry
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if err := json.Unmarshal([]byte(lines[1]), &entry); err != nil || entry.Action != "cluster recover" || entry.Outcome != "ok" || entry.Node != survivor.Name {
		t.Errorf("the audit log has\n%s (%v)", data, err)
	}
	if !strings.Contains(lines[0], `"failed"`) {
		t.Errorf("the refused recovery is not in the audit log: %s", lines[0])
	}

	survivor.Start()
	c.WaitLeader()
	if got, err := stored(c.Cluster); err != nil || got != jobs {
		t.Errorf("%d jobs of %d (%v)", got, jobs, err)
	}
	for _, n := range c.Nodes {
		if n != survivor {
			c.must(c.add(newMember(n, n.HTTP)))
			n.Start()
		}
	}
	c.becomes("n1 n2 n3")
}
